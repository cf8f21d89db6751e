"""Refuses hostile payloads before fastavro decodes them.

fastavro decodes records by recursion in C, without a limit: a payload of 10 kB with a recursive record overflows the
stack and ends the process. It reads as many items as an array announces: five bytes announce 100 million nulls. And a
decimal of a megabyte takes minutes to convert. Schemas can be hostile, too: a chain of thousands of records overflows
the stack, and records that take no bytes and contain two of the next kind double the work with each kind. A schema that
allows one of these gets a guard, which reads the payload once without decoding it. Most schemas allow none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.schemas.avro.parsing import ParsedSchema, inner, shape_of

MOST_LEVELS = 200
"""The levels of records, arrays and maps in a value."""

MOST_EMPTY_VALUES = 100_000
"""The records and items of arrays, in one value, that take no bytes."""

LONGEST_DECIMAL = 1024
"""The bytes of a decimal."""

Guard = Callable[[bytes, int], None]
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def guard_for(schema: ParsedSchema) -> Guard | None:
    """Returns a function that checks a payload from an offset on; None if the schema needs none.

    The function raises ValueError if the payload exceeds a limit, or ends too early.
    """
    shape = shape_of(schema)
    if shape.levels > MOST_LEVELS or shape.empty_items or shape.empty_values > MOST_EMPTY_VALUES:

        def walk(data: bytes, start: int) -> None:
            _Walk(data, schema.named).skip(schema.root, start)

        return walk
    if _has_decimal(schema):
        # The common case. Only a long payload can have a long decimal.
        def check(data: bytes, start: int) -> None:
            if len(data) - start > LONGEST_DECIMAL:
                _Walk(data, schema.named).skip(schema.root, start)

        return check
    return None


def check_levels(value: Any) -> None:
    """Refuses a value to be written that is nested too deeply.

    Raises:
        ValueError: It is.
    """
    parts, levels = [value], 0
    while parts:
        levels += 1
        if levels > MOST_LEVELS:
            raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
        parts = [
            item
            for part in parts
            if isinstance(part, dict | list | tuple)
            for item in (part.values() if isinstance(part, dict) else part)
            if isinstance(item, dict | list | tuple)
        ]


class _Walk:
    """Skips over a payload, value by value."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        self._data = data
        self._named = named
        self._empty = 0
        self._levels = 0

    def skip(self, schema: Any, at: int) -> int:  # noqa: C901  (one case for each type)
        """Returns the offset behind a value."""
        if isinstance(schema, list):
            index, at = self._number(at)
            if not 0 <= index < len(schema):
                raise ValueError(f"there is no member {index} of a union")
            return self.skip(schema[index], at)
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in {"int", "long", "enum"}:
            return self._number(at)[1]
        if kind in {"bytes", "string"}:
            size, at = self._number(at)
            if isinstance(schema, dict) and schema.get("logicalType") == "decimal" and size > LONGEST_DECIMAL:
                raise ValueError(f"a decimal of {size} bytes")
            return self._advance(at, size)
        if kind == "fixed":
            return self._advance(at, schema["size"])
        if kind in _SIZES:
            return self._advance(at, _SIZES[kind])
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
        if kind in {"record", "error"}:
            before = at
            for field in schema["fields"]:
                at = self.skip(field["type"], at)
            if at == before:
                self._count_empty()
        elif kind in {"array", "map"}:
            at = self._blocks(schema, kind == "map", at)
        else:  # a type in a type
            at = self.skip(kind, at)
        self._levels -= 1
        return at

    def _blocks(self, schema: Any, is_map: bool, at: int) -> int:
        items = schema["values"] if is_map else schema["items"]
        while True:
            count, at = self._number(at)
            if count == 0:
                return at
            if count < 0:
                count, (_size, at) = -count, self._number(at)
            for _ in range(count):
                before = at
                if is_map:
                    size, at = self._number(at)
                    at = self._advance(at, size)
                empty = self._empty
                at = self.skip(items, at)
                if at == before and self._empty == empty:  # a record has counted itself
                    self._count_empty()

    def _count_empty(self) -> None:
        self._empty += 1
        if self._empty > MOST_EMPTY_VALUES:
            raise ValueError(f"more than {MOST_EMPTY_VALUES:,} values without content")

    def _number(self, at: int) -> tuple[int, int]:
        data, value, shift = self._data, 0, 0
        while True:
            if at >= len(data) or shift > 63:
                raise ValueError("it ends too early" if at >= len(data) else "a number has more than 64 bits")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), at
            shift += 7

    def _advance(self, at: int, size: int) -> int:
        if size < 0 or at + size > len(self._data):
            raise ValueError("it ends too early" if size >= 0 else "a size is negative")
        return at + size


def _has_decimal(schema: ParsedSchema) -> bool:
    parts, seen = [schema.root, *schema.named.values()], set()
    while parts:
        part = parts.pop()
        if isinstance(part, str) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict) and part.get("logicalType") == "decimal" and part["type"] == "bytes":
            return True
        parts.extend(inner(part))
    return False
