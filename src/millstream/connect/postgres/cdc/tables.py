"""A captured table: its columns, and the keys and values of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from millstream.connect.postgres.cdc.envelope import envelope_schema
from millstream.connect.postgres.cdc.pgoutput import UNCHANGED
from millstream.connect.postgres.types import ColumnType
from millstream.connect.schema import struct_of
from millstream.errors import ConnectorError

TextRow: TypeAlias = Sequence[Any]
"""A row: for each column its text as str or bytes, None, or `UNCHANGED`."""


class TableColumn(NamedTuple):
    """A column.

    Attributes:
        name: Its name.
        type: Its type.
        identity: Whether it is part of the replica identity.
    """

    name: str
    type: ColumnType
    identity: bool


class CapturedTable:
    """Makes keys and values of the rows of a table, as of one definition of its columns.

    Attributes:
        schema: The name of its schema.
        name: Its name.
        topic: Its topic.
        columns: Its columns, in the order of rows.
        key: The columns of the key, in the order of the table; empty: its records have no key.
        key_schema: The schema of keys; None: its records have no key.
        value_schema: The schema of values.
    """

    def __init__(
        self,
        name: tuple[str, str],
        prefix: str,
        columns: Sequence[TableColumn],
        key: Sequence[str],
        in_value: Sequence[bool],
    ) -> None:
        self.schema, self.name = name
        self.topic = f"{prefix}.{self.schema}.{self.name}"
        self.columns = tuple(columns)
        missing = [column for column in key if column not in {known.name for known in columns}]
        if missing:
            raise ConnectorError(
                f"PostgreSQL, table {self.full_name}: the key column {missing[0]!r} does not exist, or is not "
                "published",
                hint="correct message.key.columns, or publish the column",
            )
        self.key = tuple(column.name for column in columns if column.name in key)
        self._places = {column.name: index for index, column in enumerate(columns)}
        self._key = tuple(index for index, column in enumerate(columns) if column.name in key)
        self._value = tuple(index for index, included in enumerate(in_value) if included)
        self._conversions = tuple((columns[i].name, i, columns[i].type.convert) for i in self._value)
        self._identity = frozenset(index for index, column in enumerate(columns) if column.identity)
        keys = {columns[i].name: columns[i].type.schema for i in self._key}
        self.key_schema = struct_of(f"{self.topic}.Key", keys) if keys else None
        # Null is allowed in all other columns: the old row of a delete has only the columns of the replica identity.
        fields = {
            columns[i].name: columns[i].type.schema if i in self._key else columns[i].type.schema.as_optional()
            for i in self._value
        }
        self.value_schema = envelope_schema(self.topic, struct_of(f"{self.topic}.Value", fields))

    @property
    def full_name(self) -> str:
        """The name with its schema."""
        return f"{self.schema}.{self.name}"

    def key_of(self, row: TextRow) -> dict[str, Any] | None:
        """Returns the key of a row; None: the records of the table have no key."""
        if not self._key:
            return None
        return {self.columns[i].name: self._convert(i, row[i]) for i in self._key}

    def key_text(self, row: TextRow) -> tuple[Any, ...]:
        """Returns the key of a row in the text format, for comparisons."""
        return tuple(_text(row[i]) for i in self._key)

    def texts(self, row: TextRow, columns: Sequence[str]) -> tuple[Any, ...]:
        """Returns columns of a row in the text format; None in place of a column that does not exist."""
        return tuple(_text(row[place]) if (place := self._places.get(name)) is not None else None for name in columns)

    def value_of(self, row: TextRow) -> dict[str, Any]:
        """Returns a row as a value."""
        try:
            return {
                name: None if (item := row[i]) is None else convert(item if type(item) is str else item.decode())
                for name, i, convert in self._conversions
            }
        except (ValueError, ArithmeticError, AttributeError):  # `_convert` names the column, and knows `UNCHANGED`
            return {self.columns[i].name: self._convert(i, row[i]) for i in self._value}

    def completed(self, new: TextRow, old: TextRow | None, *, old_is_key: bool) -> TextRow:
        """Returns a new row, with the values that the update did not change taken from the old row if it has them."""
        if old is None or UNCHANGED not in new:
            return new
        known = self._identity if old_is_key else range(len(new))
        return [old[i] if item is UNCHANGED and i in known else item for i, item in enumerate(new)]

    def has_key(self, *, old_is_key: bool) -> bool:
        """Returns whether an old row has all columns of the key."""
        return not old_is_key or self._identity.issuperset(self._key)

    def _convert(self, index: int, item: Any) -> Any:
        if item is None:
            return None
        column = self.columns[index]
        if item is UNCHANGED:
            return self._unavailable(column)
        try:
            return column.type.convert(item if isinstance(item, str) else item.decode())
        except (ValueError, ArithmeticError) as error:
            shown = item if isinstance(item, str) else item.decode(errors="replace")
            raise ConnectorError(
                f"PostgreSQL, table {self.full_name}, column {column.name}: the value {shown[:100]!r} cannot be "
                f"converted: {error}",
                hint="correct the value, or leave out the column with column.exclude.list",
            ) from error

    def _unavailable(self, column: TableColumn) -> Any:
        if column.type.unavailable is not None:
            return column.type.unavailable
        raise ConnectorError(
            f"PostgreSQL, table {self.full_name}, column {column.name}: an update did not change this large value, so "
            "the server did not send it, and its type has no placeholder",
            hint=f"run: ALTER TABLE {self.full_name} REPLICA IDENTITY FULL; or leave out the column with "
            "column.exclude.list",
        )


def _text(item: Any) -> Any:
    return item.decode(errors="surrogateescape") if isinstance(item, bytes) else item
