"""Rows as JSON objects: many at once where msgspec reads and writes them as `json_format` does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import msgspec

from millstream.sql.catalog.sources import Column
from millstream.sql.formats.json_format import json_decoder, json_encoder, json_reader, json_value
from millstream.sql.formats.typed_json import TypedReader
from millstream.sql.types import DOUBLE

_PLAIN, _LARGE = 1e-3, 1e7  # Java and msgspec write doubles in between in the same way
Row = dict[str, Any]


class JsonRows:
    """Reads and writes rows: as msgspec does where that is the same, else as `json_decoder` and `json_encoder`."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._names = tuple(column.name for column in columns)
        self._values = json_decoder(columns, wrapped=True)
        self._typed = TypedReader(columns, [json_reader(column.type) for column in columns])
        self._write_values = json_encoder(columns, wrapped=True)
        encoder = msgspec.json.Encoder()
        self._write, self._write_lines = encoder.encode, encoder.encode_lines
        self._doubles = tuple(column.name for column in columns if column.type == DOUBLE)
        self._converts = any(json_value(column.type) is not None for column in columns if column.type != DOUBLE)

    def write(self, row: Row) -> bytes | None:
        """Returns the object of a row."""
        if self._converts:
            return self._write_values([row[name] for name in self._names])
        if tuple(row) != self._names:
            row = {name: row[name] for name in self._names}
        if _unusual(map(row.__getitem__, self._doubles)):
            return self._write_values(list(row.values()))
        return self._write(row)

    def write_all(self, rows: Collection[Row | None]) -> list[bytes | None]:
        """Returns the objects of several rows."""
        if not self._converts and None not in rows:
            with suppress(Exception):  # one by one, the row that fails is known
                if self._are_usual(rows):
                    lines: list[bytes | None] = [*self._write_lines(rows).split(b"\n")]  # JSON escapes ends of lines
                    return lines[:-1]
        return [None if row is None else self.write(row) for row in rows]

    def _are_usual(self, rows: Collection[Any]) -> bool:
        """Whether rows have the order of the columns, and doubles that msgspec writes as Java does."""
        in_order = list(map(tuple, rows)).count(self._names) == len(rows)
        return in_order and not any(_unusual(map(itemgetter(name), rows)) for name in self._doubles)

    def read(self, data: bytes) -> Row | None:
        """Returns the row of an object; None for a null row."""
        if self._typed.read is not None:
            try:
                return self._typed.read(data)
            except Exception:  # noqa: BLE001, S110  (an object that needs conversions, or is invalid)
                pass
        values = self._values(data)
        if values is None:
            return None
        self._typed.learn(data)
        return dict(zip(self._names, values, strict=True))

    def read_all(self, data: Collection[bytes | None]) -> list[Row | None]:
        """Returns the rows of several objects."""
        if self._typed.read_all is None:  # the first object shows the names of the others
            self.read(next((item for item in data if item is not None), b"null"))
        if self._typed.read_all is not None:
            try:
                return list(self._typed.read_all(data))
            except Exception:  # noqa: BLE001, S110  (likewise, or a null record value)
                pass
        return [None if item is None else self.read(item) for item in data]


def _unusual(doubles: Iterable[Any]) -> bool:
    """Whether one of the values is not a float, or one that msgspec writes in another way than Java."""
    for value in doubles:
        if value is not None and not (type(value) is float and (_PLAIN <= value < _LARGE or value == 0.0)):
            return True
    return False
