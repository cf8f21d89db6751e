"""Random Avro schemas, and values of them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from hypothesis import strategies as st

Pair = tuple[Any, "st.SearchStrategy[Any]"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LONG = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(max_size=8)


def _timestamps(unit: int) -> st.SearchStrategy[Any]:
    return st.integers(0, 10**12).map(lambda n: _EPOCH + dt.timedelta(microseconds=n * unit))


def _times(unit: int) -> st.SearchStrategy[Any]:
    return st.integers(0, 86_399_999).map(lambda n: (_EPOCH + dt.timedelta(microseconds=n * unit)).time())


def _decimals(scale: int) -> st.SearchStrategy[Any]:
    return st.integers(-(10**8), 10**8).map(lambda n: decimal.Decimal(n).scaleb(-scale))


def _logical(kind: str, logical: str, **options: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **options}


SCALARS: list[Pair] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", _LONG),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=8)),
    ("string", _TEXT),
    (_logical("int", "date"), st.dates()),
    (_logical("int", "time-millis"), _times(1000)),
    (_logical("long", "time-micros"), _times(1)),
    (_logical("long", "timestamp-millis"), _timestamps(1000)),
    (_logical("long", "timestamp-micros"), _timestamps(1)),
    (_logical("string", "uuid"), st.uuids()),
    (_logical("bytes", "decimal", precision=12, scale=3), _decimals(3)),
]


class _Names:
    def __init__(self) -> None:
        self._count = 0

    def next(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"


@st.composite
def schemas(draw: st.DrawFn, *, depth: int = 3) -> Pair:
    """A record, and the strategy of its values."""
    names = _Names()
    return _record(draw, names, depth)


def _any(draw: st.DrawFn, names: _Names, depth: int) -> Pair:
    kinds = ["scalar"] * 3 + (["record", "array", "map", "enum", "fixed", "optional", "recursive"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "record":
        return _record(draw, names, depth - 1)
    if kind == "array":
        items, values = _any(draw, names, depth - 1)
        return {"type": "array", "items": items}, st.lists(values, max_size=3)
    if kind == "map":
        items, values = _any(draw, names, depth - 1)
        return {"type": "map", "values": items}, st.dictionaries(_TEXT, values, max_size=3)
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": names.next("Enum"), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        return {"type": "fixed", "name": names.next("Fixed"), "size": 4}, st.binary(min_size=4, max_size=4)
    if kind == "optional":
        inner, values = _any(draw, names, depth - 1)
        if inner == "null" or isinstance(inner, list):
            return inner, values
        return ["null", inner], st.none() | values
    if kind == "recursive":
        name = names.next("Tree")
        fields = [{"name": "n", "type": "int"}, {"name": "below", "type": {"type": "array", "items": name}}]
        leaf = st.fixed_dictionaries({"n": st.integers(0, 9), "below": st.just([])})
        tree = st.recursive(
            leaf,
            lambda below: st.fixed_dictionaries({"n": st.integers(0, 9), "below": st.lists(below, max_size=2)}),
            max_leaves=4,
        )
        return {"type": "record", "name": name, "fields": fields}, tree
    return draw(st.sampled_from(SCALARS))


def _record(draw: st.DrawFn, names: _Names, depth: int) -> Pair:
    name = names.next("Record")
    fields, values = [], {}
    for index in range(draw(st.integers(1, 4))):
        schema, strategy = _any(draw, names, depth)
        fields.append({"name": f"f{index}", "type": schema})
        values[f"f{index}"] = strategy
    return {"type": "record", "name": name, "namespace": "com.acme", "fields": fields}, st.fixed_dictionaries(values)
