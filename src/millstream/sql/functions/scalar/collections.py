"""Functions of arrays and maps, and those that take lambdas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.sql.functions.catalogue import ScalarFunction, on, scalar
from millstream.sql.functions.java.hashing import hash_items
from millstream.sql.functions.java.text import text_of
from millstream.sql.functions.signatures import Bound
from millstream.sql.functions.values import identity, order_of, utf16_order
from millstream.sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, ArrayType, DecimalType

MAX_SERIES = 1_000_000
"""GENERATE_SERIES raises if its result would have more elements: a bound on memory."""

Items = list[Any]
Entries = dict[Any, Any]


# ----- arrays --------------------------------------------------------------------------------------------------------


def _contains(items: Items | None, value: Any) -> bool:
    return items is not None and value in items


def _array_concat(left: Items | None, right: Items | None) -> Items | None:
    if left is None or right is None:
        return right if left is None else left
    return [*left, *right]


def _distinct(items: Items) -> Items:
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(identity(item), item)
    return list(found.values())


def _union(left: Items, right: Items) -> Items:
    return _distinct([*left, *right])


def _intersect(left: Items, right: Items) -> Items:
    allowed = set(map(identity, right))
    return [item for item in _distinct(left) if identity(item) in allowed]


def _except(left: Items, right: Items) -> Items:
    excluded = set(map(identity, right))
    return [item for item in _distinct(left) if identity(item) not in excluded]


def _remove(items: Items | None, value: Any) -> Items | None:
    return None if items is None else [item for item in items if item != value]


def _element(bound: Bound, index: int = 0) -> Any:
    type_ = bound.type(index)
    assert isinstance(type_, ArrayType)
    return type_.element


def _extreme(choose: Callable[..., Any]) -> Callable[[Bound], Callable[[Items], Any]]:
    def bind(bound: Bound) -> Callable[[Items], Any]:
        key = order_of(_element(bound))

        def compute(items: Items) -> Any:
            present = [item for item in items if item is not None]
            return choose(present, key=key) if present else None

        return compute

    return bind


_DIRECTIONS = {"ASC": False, "ASCENDING": False, "DESC": True, "DESCENDING": True}


def _sort(bound: Bound) -> Callable[..., Items | None]:
    key = order_of(_element(bound))

    def sort(items: Items, direction: str = "ASC") -> Items | None:
        descending = _DIRECTIONS.get(direction.upper())
        if descending is None:
            return None
        present = [item for item in items if item is not None]
        present.sort(key=key, reverse=descending)
        items[:] = present + [None] * (len(items) - len(present))
        return items

    return sort


_JOINED = (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING)


def _join(bound: Bound) -> Callable[..., str | None]:
    element = _element(bound)
    text = text_of(element)
    joins = element in _JOINED or isinstance(element, DecimalType)

    def join(items: Items | None, separator: str | None = ",") -> str | None:
        if items is None:
            return None
        if not joins and any(item is not None for item in items):
            raise TypeError(f"ARRAY_JOIN: {element} is not supported: elements are numbers, texts or booleans")
        return (separator or "").join("null" if item is None else text(item) for item in items)

    return join


def _slice(items: Items | None, first: int | None, last: int | None) -> Items | None:
    if items is None:
        return None
    start = 0 if first is None else first - 1
    end = len(items) if last is None else last
    return items[start:end] if 0 <= start <= end <= len(items) else None


def _series(first: int, last: int, step: int | None = None) -> list[int]:
    if step is None:
        step = 1 if last >= first else -1
    if step == 0 or (last > first and step < 0) or (last < first and step > 0):
        raise ValueError(f"GENERATE_SERIES: a step of {step} does not lead from {first} to {last}")
    count = (last - first) // step + 1
    if count > MAX_SERIES:
        raise ValueError(f"GENERATE_SERIES: the result would have {count} elements; the limit is {MAX_SERIES}")
    return [first + index * step for index in range(count)]


# ----- maps ----------------------------------------------------------------------------------------------------------


def _entries(entries: Entries, in_order: bool) -> list[dict[str, Any]]:
    pairs = sorted(entries.items(), key=lambda pair: utf16_order(pair[0])) if in_order else hash_items(entries, STRING)
    return [{"K": key, "V": value} for key, value in pairs]


def _as_map(keys: Items, values: Items) -> Entries:
    return {key: values[index] if index < len(values) else None for index, key in enumerate(keys)}


def _map_union(left: Entries | None, right: Entries | None) -> Entries | None:
    if left is None or right is None:
        return right if left is None else left
    return {**left, **right}


# ----- lambdas -------------------------------------------------------------------------------------------------------


def _transform_array(items: Items, function: Callable[[Any], Any]) -> Items:
    return [function(item) for item in items]


def _transform_map(entries: Entries, to_key: Callable[..., Any], to_value: Callable[..., Any]) -> Entries:
    result: Entries = {}
    for key, value in entries.items():
        changed = to_key(key, value)
        if changed in result:
            raise ValueError(f"TRANSFORM: duplicate key {changed!r}")
        result[changed] = to_value(key, value)
    return result


def _keeps(answer: Any) -> bool:
    if answer is None:
        raise ValueError("FILTER: the condition is NULL")
    return bool(answer)


def _filter_array(items: Items, function: Callable[[Any], Any]) -> Items:
    return [item for item in items if _keeps(function(item))]


def _filter_map(entries: Entries, function: Callable[..., Any]) -> Entries:
    kept = {key: value for key, value in entries.items() if _keeps(function(key, value))}
    if None in kept.values():
        raise ValueError("FILTER: a map with NULL values cannot be filtered")
    return kept


def _reduce_array(items: Items | None, state: Any, function: Callable[..., Any]) -> Any:
    if state is None or items is None:
        return state
    for item in items:
        state = function(state, item)
    return state


def _reduce_map(entries: Entries | None, state: Any, function: Callable[..., Any]) -> Any:
    if state is None or entries is None:
        return state
    for key, value in entries.items():
        state = function(state, key, value)
    return state


def _set_function(name: str, documentation: str, example: tuple[str, str], function: Any) -> ScalarFunction:
    return scalar(name, "arrays", documentation, example, on("(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", function))


FUNCTIONS = (
    scalar(
        "ARRAY_LENGTH",
        "arrays",
        "Returns the number of elements.",
        ("ARRAY_LENGTH(ARRAY[1, 2])", "2"),
        on("(ARRAY<T>) -> INT", len),
    ),
    scalar(
        "ARRAY_CONTAINS",
        "arrays",
        "Whether an array has an element that is equal to a value.",
        ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", "true"),
        on("(ARRAY<T>, T) -> BOOLEAN", _contains, nulls=True),
    ),
    scalar(
        "ARRAY_CONCAT",
        "arrays",
        "Appends an array to another one; a NULL counts as empty, unless both are NULL.",
        ("ARRAY_CONCAT(ARRAY[1], ARRAY[2, 1])", "[1, 2, 1]"),
        on("(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", _array_concat, nulls=True),
    ),
    scalar(
        "ARRAY_DISTINCT",
        "arrays",
        "Returns the elements without repetitions, in the order of their first occurrence.",
        ("ARRAY_DISTINCT(ARRAY[2, 1, 2])", "[2, 1]"),
        on("(ARRAY<T>) -> ARRAY<T>", _distinct),
    ),
    _set_function(
        "ARRAY_UNION",
        "Returns the elements of both arrays, without repetitions.",
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", "[1, 2, 3]"),
        _union,
    ),
    _set_function(
        "ARRAY_INTERSECT",
        "Returns the elements that are in both arrays, without repetitions.",
        ("ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2, 3])", "[2]"),
        _intersect,
    ),
    _set_function(
        "ARRAY_EXCEPT",
        "Returns the elements of the first array that are not in the second, without repetitions.",
        ("ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2, 3])", "[1]"),
        _except,
    ),
    scalar(
        "ARRAY_REMOVE",
        "arrays",
        "Returns the elements that are not equal to a value.",
        ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", "[2]"),
        on("(ARRAY<T>, T) -> ARRAY<T>", _remove, nulls=True),
    ),
    scalar(
        "ARRAY_MIN",
        "arrays",
        "Returns the smallest element; NULLs are ignored.",
        ("ARRAY_MIN(ARRAY[2, 1])", "1"),
        on("(ARRAY<T>) -> T", bind=_extreme(min)),
    ),
    scalar(
        "ARRAY_MAX",
        "arrays",
        "Returns the largest element; NULLs are ignored.",
        ("ARRAY_MAX(ARRAY[2, 1])", "2"),
        on("(ARRAY<T>) -> T", bind=_extreme(max)),
    ),
    scalar(
        "ARRAY_SORT",
        "arrays",
        "Sorts an array in place, ascending unless 'DESC' is given; NULLs go last.",
        ("ARRAY_SORT(ARRAY[1, 3, 2], 'DESC')", "[3, 2, 1]"),
        on("(ARRAY<T>) -> ARRAY<T>", bind=_sort),
        on("(ARRAY<T>, STRING) -> ARRAY<T>", bind=_sort),
    ),
    scalar(
        "ARRAY_JOIN",
        "arrays",
        "Joins the texts of the elements, with a comma unless a separator is given.",
        ("ARRAY_JOIN(ARRAY[1, 2], ' ')", "1 2"),
        on("(ARRAY<T>) -> STRING", bind=_join, nulls=True),
        on("(ARRAY<T>, STRING) -> STRING", bind=_join, nulls=True),
    ),
    scalar(
        "SLICE",
        "arrays",
        "Returns the elements from one position to another one, both included and counted from 1; NULL is open.",
        ("SLICE(ARRAY[1, 2, 3], 2, NULL)", "[2, 3]"),
        on("(ARRAY<T>, INT, INT) -> ARRAY<T>", _slice, nulls=True),
    ),
    scalar(
        "GENERATE_SERIES",
        "arrays",
        f"Returns the numbers from one to another one, both included; at most {MAX_SERIES}.",
        ("GENERATE_SERIES(1, 7, 3)", "[1, 4, 7]"),
        on("(INT!, INT!) -> ARRAY<INT>", _series),
        on("(BIGINT!, BIGINT!) -> ARRAY<BIGINT>", _series),
        on("(INT!, INT!, INT!) -> ARRAY<INT>", _series),
        on("(BIGINT!, BIGINT!, INT!) -> ARRAY<BIGINT>", _series),
    ),
    scalar(
        "ENTRIES",
        "maps",
        "Returns the entries of a map as structs with the fields K and V, sorted by key if TRUE is given.",
        ("ENTRIES(MAP('b' := 1, 'a' := 2), TRUE)", "[Struct{K=a,V=2}, Struct{K=b,V=1}]"),
        *(
            on(f"(MAP<STRING, {type_}>, BOOLEAN!) -> ARRAY<STRUCT<K STRING, V {type_}>>", _entries)
            for type_ in ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING")
        ),
    ),
    scalar(
        "AS_MAP",
        "maps",
        "Makes a map of an array of keys and one of values.",
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", "{a=1, b=2}"),
        on("(ARRAY<STRING>, ARRAY<T>) -> MAP<STRING, T>", _as_map),
    ),
    scalar(
        "MAP_KEYS",
        "maps",
        "Returns the keys of a map.",
        ("MAP_KEYS(MAP('a' := 1))", "[a]"),
        on("(MAP<STRING, T>) -> ARRAY<STRING>", lambda entries: [key for key, _value in hash_items(entries, STRING)]),
    ),
    scalar(
        "MAP_VALUES",
        "maps",
        "Returns the values of a map.",
        ("MAP_VALUES(MAP('a' := 1))", "[1]"),
        on("(MAP<STRING, T>) -> ARRAY<T>", lambda entries: [value for _key, value in hash_items(entries, STRING)]),
    ),
    scalar(
        "MAP_UNION",
        "maps",
        "Returns the entries of both maps; the second one wins.",
        ("MAP_UNION(MAP('a' := 1), MAP('a' := 2))", "{a=2}"),
        on("(MAP<STRING, T>, MAP<STRING, T>) -> MAP<STRING, T>", _map_union, nulls=True),
    ),
    scalar(
        "TRANSFORM",
        "lambdas",
        "Applies a lambda to each element of an array, or one to the keys and one to the values of a map.",
        ("TRANSFORM(ARRAY[1, 2], x => x * 10)", "[10, 20]"),
        on("(ARRAY<T>, LAMBDA(T) => R) -> ARRAY<R>", _transform_array),
        on("(MAP<K, V>, LAMBDA(K, V) => R, LAMBDA(K, V) => S) -> MAP<R, S>", _transform_map),
    ),
    scalar(
        "FILTER",
        "lambdas",
        "Returns the elements of an array, or the entries of a map, for which a lambda is TRUE.",
        ("FILTER(ARRAY[1, 2, 3], x => x > 1)", "[2, 3]"),
        on("(ARRAY<T>, LAMBDA(T) => BOOLEAN) -> ARRAY<T>", _filter_array),
        on("(MAP<K, V>, LAMBDA(K, V) => BOOLEAN) -> MAP<K, V>", _filter_map),
    ),
    scalar(
        "REDUCE",
        "lambdas",
        "Computes a state from the elements of an array or the entries of a map, one after the other.",
        ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", "16"),
        on("(ARRAY<T>, S, LAMBDA(S, T) => S) -> S", _reduce_array, nulls=True),
        on("(MAP<K, V>, S, LAMBDA(S, K, V) => S) -> S", _reduce_map, nulls=True),
    ),
)
