"""Reads rows from JSON objects with the types of columns: values that need no conversion come from msgspec as they are.

The reader of `json_format` accepts more: numbers as texts, names in other cases. A typed reader knows the names of
columns in the objects that it has seen. It raises for every object that it may not read in the same way, and the caller
reads that one by `json_format`, and then shows the object to the typed reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec

from millstream.sql.catalog.sources import Column
from millstream.sql.formats.rows import are_attributes
from millstream.sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, ArrayType, MapType, SqlType

Values = tuple[Any, ...]
Row = dict[str, Any]
_MOST_NAMES: Final = 100
_TYPES: Final[Mapping[SqlType, Any]] = {
    BOOLEAN: bool,
    INTEGER: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)],
    BIGINT: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    DOUBLE: float,
    STRING: str,
}


def _python_type(type_: SqlType) -> Any:
    """Returns the type of JSON values that are values of a type without conversion; None if there is none."""
    if isinstance(type_, ArrayType):
        element = _python_type(type_.element)
        return None if element is None else list[element | None]  # type: ignore[valid-type]
    if isinstance(type_, MapType):
        item = _python_type(type_.value)
        return None if item is None or type_.key != STRING else dict[str, item | None]  # type: ignore[valid-type]
    return _TYPES.get(type_)


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TypedReader:
    """Reads rows from JSON objects.

    Attributes:
        read: Returns the row of an object; raises for objects that it may not read. None until the
            names of an object are known, and if objects have several names for a column.
        read_all: The same for several objects.
    """

    def __init__(self, columns: Sequence[Column], readers: Sequence[Callable[[Any], Any]]) -> None:
        self.read: Callable[[bytes], Row] | None = None
        self.read_all: Callable[[Iterable[Any]], list[Row]] | None = None
        self._columns = columns
        self._readers = readers
        self._names: dict[str, int | None] = {}
        self._usable = True

    def learn(self, data: bytes) -> None:
        """Takes the names of a valid object into account."""
        if not self._usable:
            return
        new = [name for name in _OBJECT.decode(data) if name not in self._names]
        if not new and self.read is not None:
            return
        exact = {column.name: index for index, column in enumerate(self._columns)}
        for name in new:
            index = exact.get(name)
            self._names[name] = exact.get(name.upper()) if index is None else index
        known = [index for index in self._names.values() if index is not None]
        self._usable = len(known) == len(set(known)) and len(self._names) <= _MOST_NAMES and not _odd(new)
        self.read, self.read_all = self._made() if self._usable else (None, None)

    def _made(self) -> tuple[Callable[[bytes], Row], Callable[[Iterable[Any]], list[Row]]]:
        """Returns the readers of objects with the known names; each may be absent, null, or a value of its type."""
        columns = [column.name for column in self._columns]
        fields: list[tuple[str, Any, Any]] = []
        names: dict[str, str] = {}
        places: list[int | None] = [None] * len(columns)
        converted: list[tuple[int, Callable[[Any], Any]]] = []
        # The attributes of the struct are the columns of the row if they can be.
        direct = sorted(index for index in self._names.values() if index is not None) == list(range(len(columns)))
        direct = direct and len(self._names) == len(columns) and are_attributes(columns)
        for place, (name, index) in enumerate(self._names.items()):
            type_ = None if index is None else _python_type(self._columns[index].type)
            if index is not None:
                places[index] = place
                if type_ is None:
                    converted.append((index, self._readers[index]))
            field = columns[index] if direct and index is not None else f"field_{place}"
            fields.append((field, Any if type_ is None else type_ | None, None))
            names[field] = name
        struct = msgspec.defstruct("JsonObject", fields, rename=names, forbid_unknown_fields=True, gc=False)
        decode = msgspec.json.Decoder(struct, float_hook=Decimal).decode
        astuple, asdict = msgspec.structs.astuple, msgspec.structs.asdict
        if direct and not converted:
            return lambda data: asdict(decode(data)), lambda data: list(map(asdict, map(decode, data)))

        def read(data: bytes) -> Row:
            all_values = astuple(decode(data))
            values = [None if place is None else all_values[place] for place in places]
            for index, convert in converted:
                if values[index] is not None:
                    values[index] = convert(values[index])
            return dict(zip(columns, values, strict=True))

        return read, lambda data: list(map(read, data))


def _odd(names: Iterable[str]) -> bool:
    """Whether msgspec refuses one of the names of fields."""
    return any(not name.isprintable() or '"' in name or "\\" in name for name in names)
