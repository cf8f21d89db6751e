"""Compares the changes of a batch with the columns of their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.connect.postgres.sink.columns import Column, accepts, describe, misfits, new_column, widened
from millstream.connect.postgres.sink.rows import OFFSET, PARTITION, TIMESTAMP, Change, Table
from millstream.connect.postgres.sink.tables import Evolution

_OWN_TYPES = {PARTITION: "integer", OFFSET: "bigint", TIMESTAMP: "timestamp with time zone"}


class Fitting:
    """What the table of some changes lacks, and which changes it cannot hold.

    Args:
        settings: The settings of the sink.
        table: The table.
        columns: Its columns; None if there is no such table.
        changes: The changes.

    Attributes:
        refused: The reasons, by the places of the records.
        evolution: What the table lacks.
        evolved: The places of the changes for which it lacks something.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        table: Table,
        columns: Mapping[str, Column] | None,
        changes: Sequence[Change],
    ) -> None:
        self.refused: dict[int, str] = {}
        self.evolved: set[int] = set()
        self._settings = settings
        self._table = table
        self._types: dict[str, str] = {**_OWN_TYPES, **settings["column.types"]}
        self._added: list[Column] = []
        self._widened: list[Column] = []
        creates = columns is None
        if creates and not settings["auto.create"]:
            reason = f"there is no table {table}, and the sink does not create tables: see schema.evolution"
            self.refused = {change.place: reason for change in changes}
        else:
            self._may_add = creates or settings["auto.evolve"]
            rows = [change.key if change.fields is None else change.fields for change in changes]
            for name in _names(rows):
                column = (columns or {}).get(name)
                # Most columns accept all values: that is found without a look at single records.
                if column is None or _refuses_nulls(column) or misfits(column, [row.get(name) for row in rows]):
                    cells = [
                        (change.place, row[name]) for change, row in zip(changes, rows, strict=True) if name in row
                    ]
                    self._fit(name, column, cells)
        key = tuple(changes[0].key)
        # A key column comes first in a new table.
        self._added.sort(key=lambda column: column.name not in key)
        self.evolution = Evolution(creates and bool(self._added), key, tuple(self._added), tuple(self._widened))

    def _fit(self, name: str, column: Column | None, cells: list[tuple[int, Any]]) -> None:
        values = [value for _place, value in cells]
        if column is None:
            self._fit_new(name, cells)
            return
        if _refuses_nulls(column):
            self._refuse(
                [cell for cell in cells if cell[1] is None], f"column {name!r} of table {self._table} refuses nulls"
            )
        unfit = misfits(column, values)
        if not unfit:
            return
        wider = column
        for value in unfit:
            if not accepts(wider, value):
                wider = (widened(wider, value) if self._settings["auto.evolve"] else None) or wider
        if wider is not column:
            self._widened.append(wider)
            self.evolved.update(place for place, value in cells if value is not None and not accepts(column, value))
        for place, value in cells:
            if value is not None and not accepts(wider, value):
                reason = f"column {name!r} of table {self._table} has the type {column.declared}, the value is "
                self.refused[place] = reason + describe(value)

    def _fit_new(self, name: str, cells: list[tuple[int, Any]]) -> None:
        filled = [(place, value) for place, value in cells if value is not None]
        if not filled:  # a null needs no column
            return
        if not self._may_add:
            self._refuse(filled, f"table {self._table} has no column {name!r}, and auto.evolve is off")
            return
        told = self._types.get(name)
        column = Column(name, told, "") if told else new_column(name, [value for _place, value in filled])
        if column is None:
            self._refuse(filled, f"field {name!r} is {describe(filled[0][1])}, which has no type in PostgreSQL")
            return
        self._added.append(column)
        self.evolved.update(place for place, _value in filled)

    def _refuse(self, cells: list[tuple[int, Any]], reason: str) -> None:
        self.refused.update((place, reason) for place, _value in cells)


def _refuses_nulls(column: Column) -> bool:
    return column.not_null and not column.has_default


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of the fields, in the order of their appearance."""
    names: dict[str, None] = {}
    for row in rows:
        if not names.keys() >= row.keys():
            names.update(dict.fromkeys(row))
    return list(names)
