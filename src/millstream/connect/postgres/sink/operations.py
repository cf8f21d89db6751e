"""What is done with the rows of a table: the changes of a batch, one operation for each key, as lines of COPY."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.connect.postgres.sink.columns import Column
from millstream.connect.postgres.sink.encoding import encode_column
from millstream.connect.postgres.sink.rows import Change


class Operation(NamedTuple):
    """What is done with one row.

    Attributes:
        place: The place of the last record that contributes to it.
        row: The values of the columns, or only those of the key.
        deletes: Whether the row of the key is deleted.
        writes: Whether the row is written, after the deletion if there is one.
    """

    place: int
    row: Mapping[str, Any]
    deletes: bool
    writes: bool


def single(change: Change) -> Operation:
    """Returns the operation of one change."""
    if change.fields is None:
        return Operation(change.place, change.key, deletes=True, writes=False)
    return Operation(change.place, change.fields, deletes=False, writes=True)


def merged(changes: Iterable[Change]) -> list[Operation]:
    """Returns one operation for each key, with the effect of all its changes, in the order of the last ones."""
    operations: dict[Any, Operation] = {}
    for change in changes:
        key = _hashable(tuple(change.key.values()))
        before = operations.pop(key, None)
        operation = single(change)
        if before is not None and operation.writes:
            row = {**before.row, **operation.row} if before.writes else operation.row
            operation = Operation(change.place, row, before.deletes, writes=True)
        operations[key] = operation
    return list(operations.values())


def _hashable(key: tuple[Any, ...]) -> Any:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


class Line(NamedTuple):
    """An operation as a line of COPY.

    Attributes:
        place: The place of the record.
        group: The number of the group of operations that write the same columns.
        deletes: Whether the operation deletes the row of its key first.
        text: The line, with the line feed.
    """

    place: int
    group: int
    deletes: bool
    text: bytes


class Lines:
    """The lines of a table.

    Args:
        operations: The operations.
        columns: The columns of the table.
        staged: Whether the lines are for a staging table, which has columns of the sink's own before the others.

    Attributes:
        names: The columns of a line, without the sink's own.
        groups: The columns that the operations of each group write; those of the group -1 write none.
        lines: The lines, in the order of the operations.
        refused: The reasons of operations that have no line, by their places.
    """

    def __init__(self, operations: Sequence[Operation], columns: Mapping[str, Column], *, staged: bool) -> None:
        used = dict.fromkeys(name for operation in operations for name in operation.row)
        self.names = tuple(name for name in used if name in columns)
        self.groups: list[tuple[str, ...]] = []
        self.refused: dict[int, str] = {}
        self._numbers: dict[frozenset[str], int] = {}
        cells = []
        for name in self.names:
            refused: dict[int, str] = {}
            values = [operation.row.get(name) for operation in operations]
            cells.append(encode_column(columns[name], values, refused))
            self.refused |= {operations[place].place: reason for place, reason in refused.items()}
        if not self.names:
            reason = "the record has no value for any column"
            self.refused = {operation.place: reason for operation in operations}
        self.lines = self._lines(operations, list(zip(*cells, strict=True)), staged) if self.names else []

    def _lines(self, operations: Sequence[Operation], rows: Sequence[tuple[str, ...]], staged: bool) -> list[Line]:
        lines = []
        for operation, row in zip(operations, rows, strict=True):
            group = self._group(operation)
            own = (str(operation.place), str(group), "t" if operation.deletes else "f") if staged else ()
            try:
                text = "\t".join((*own, *row)).encode() + b"\n"
            except UnicodeEncodeError:
                self.refused[operation.place] = "a text is not valid Unicode: it contains half of a surrogate pair"
                continue
            lines.append(Line(operation.place, group, operation.deletes, text))
        return lines

    def _group(self, operation: Operation) -> int:
        if not operation.writes:
            return -1
        written = frozenset(operation.row)
        number = self._numbers.get(written)
        if number is None:
            number = self._numbers[written] = len(self.groups)
            self.groups.append(tuple(name for name in self.names if name in written))
        return number
