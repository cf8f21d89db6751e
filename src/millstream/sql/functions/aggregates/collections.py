"""Aggregates that collect values: lists, sets, the largest ones, and their number."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.catalogue import Accumulator, AggregateFunction, Config, aggregate
from millstream.sql.functions.scalar.json import json_writer
from millstream.sql.functions.signatures import Bound
from millstream.sql.functions.values import identity, order_of
from millstream.sql.types import INTEGER, ArrayType, SqlType, StructType

Items = list[Any]


def _limit(config: Config, name: str) -> int:
    """Returns how many elements a function may collect; without the property there is no limit."""
    value = config.get(f"ksql.functions.{name}.limit")
    try:
        limit = -1 if value is None else int(value)
    except ValueError:
        raise SqlStatementError(f"ksql.functions.{name}.limit must be a whole number, not {value!r}") from None
    return limit if limit >= 0 else 2**31 - 1


class CollectList(Accumulator):
    """All values, NULLs included, up to a limit."""

    can_undo = True

    def __init__(self, type_: SqlType, limit: int) -> None:
        self.state = ArrayType(type_)
        self._limit = limit

    def initial(self) -> Items:
        """Returns no values."""
        return []

    def add(self, state: Items, *values: Any) -> Items:
        """Appends the value."""
        return [*state, values[0]] if len(state) < self._limit else state

    def undo(self, state: Items, *values: Any) -> Items:
        """Removes the last equal value."""
        for index in range(len(state) - 1, -1, -1):
            if state[index] == values[0]:
                return [*state[:index], *state[index + 1 :]]
        return state

    def merge(self, left: Items, right: Items) -> Items:
        """Appends the later values."""
        return [*left, *right][: self._limit]


class CollectSet(Accumulator):
    """Distinct values, NULL included, in the order of their first occurrence, up to a limit."""

    def __init__(self, type_: SqlType, limit: int) -> None:
        self.state = ArrayType(type_)
        self._limit = limit

    def initial(self) -> Items:
        """Returns no values."""
        return []

    def add(self, state: Items, *values: Any) -> Items:
        """Appends a value that is new."""
        return state if len(state) >= self._limit or values[0] in state else [*state, values[0]]

    def merge(self, left: Items, right: Items) -> Items:
        """Appends those values of the right side that are new."""
        found: dict[Any, Any] = {}
        for item in [*left, *right]:
            found.setdefault(identity(item), item)
        return list(found.values())[: self._limit]


class TopK(Accumulator):
    """The k largest values, or structs with the k largest values and other columns."""

    def __init__(self, bound: Bound) -> None:
        self._size = _size("TOPK", bound)
        type_ = bound.type(0)
        others = [bound.type(index) for index in range(1, len(bound.types) - 1)]
        self._names = ["sort_col", *(f"col{index}" for index in range(len(others)))] if others else []
        struct = StructType(tuple(zip(self._names, [type_, *others], strict=True))) if others else type_
        self.state = ArrayType(struct)
        order = order_of(type_)
        self._order: Callable[[Any], Any] = (lambda value: value) if order is None else order

    def initial(self) -> Items:
        """Returns no values."""
        return []

    def add(self, state: Items, *values: Any) -> Items:
        """Puts a value in its place; it goes behind equal ones."""
        if values[0] is None:
            return state
        item = dict(zip(self._names, values, strict=True)) if self._names else values[0]
        return self.merge(state, [item])

    def _key(self, item: Any) -> Any:
        return self._order(item["sort_col"] if self._names else item)

    def merge(self, left: Items, right: Items) -> Items:
        """Keeps the largest of both; equal ones of the left side go first."""
        # Sorting in reverse keeps the order of equal elements.
        return sorted([*left, *right], key=self._key, reverse=True)[: self._size]


class TopKDistinct(Accumulator):
    """The k largest distinct values."""

    def __init__(self, bound: Bound) -> None:
        self._size = _size("TOPKDISTINCT", bound)
        self.state = ArrayType(bound.type(0))
        self._order = order_of(bound.type(0))

    def initial(self) -> Items:
        """Returns no values."""
        return []

    def add(self, state: Items, *values: Any) -> Items:
        """Puts a value in its place, if it is new."""
        return state if values[0] is None or values[0] in state else self.merge(state, [values[0]])

    def merge(self, left: Items, right: Items) -> Items:
        """Keeps the largest of both."""
        return sorted(set(left) | set(right), key=self._order, reverse=True)[: self._size]


def _size(name: str, bound: Bound) -> int:
    size = int(bound.literals[-1])
    if size < 1:
        raise SqlStatementError(f"{name} must be called with a number of values that is at least 1, not {size}")
    return size


_REGISTER_BITS = 14
_REGISTERS = 1 << _REGISTER_BITS


class CountDistinct(Accumulator):
    """HyperLogLog with 2^14 registers.

    The state lists the registers that are not 0, each as ``register * 64 + value``, in the order of the registers.
    """

    state = ArrayType(INTEGER)

    def __init__(self, type_: SqlType) -> None:
        self._write = json_writer(type_)

    def initial(self) -> list[int]:
        """Returns no registers."""
        return []

    def add(self, state: list[int], *values: Any) -> list[int]:
        """Raises the register of a value."""
        if values[0] is None:
            return state
        digest = hashlib.blake2b(self._write(values[0]).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        hashed = int.from_bytes(digest, "big")
        register, rest = hashed >> (64 - _REGISTER_BITS), hashed & ((1 << (64 - _REGISTER_BITS)) - 1)
        rank = 64 - _REGISTER_BITS - rest.bit_length() + 1
        return self.merge(state, [register << 6 | rank])

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        """Takes the larger value of each register."""
        registers = {item >> 6: item for item in left}
        changed = [item for item in right if registers.get(item >> 6, -1) < item]
        if not changed:
            return left
        registers.update((item >> 6, item) for item in changed)
        return sorted(registers.values())

    def finish(self, state: list[int]) -> int:
        """Estimates the number of values."""
        empty = _REGISTERS - len(state)
        total = empty + sum(2.0 ** -(item & 63) for item in state)
        estimate = 0.7213 / (1 + 1.079 / _REGISTERS) * _REGISTERS * _REGISTERS / total
        if estimate <= 2.5 * _REGISTERS and empty:
            estimate = _REGISTERS * math.log(_REGISTERS / empty)
        return round(estimate)


def _struct_result(bound: Bound) -> SqlType:
    return TopK(bound).state


def _array_of_first(bound: Bound) -> SqlType:
    return ArrayType(bound.type(0))


_SORTED = ("INT", "BIGINT", "DOUBLE", "STRING")

FUNCTIONS = (
    AggregateFunction(
        "COLLECT_LIST",
        "aggregate",
        "Collects all values of a column, NULLs included; ksql.functions.collect_list.limit bounds their number.",
        "collect_list",
        None,
        (
            aggregate(
                "(T) -> ARRAY<T>", lambda bound, config: CollectList(bound.type(0), _limit(config, "collect_list"))
            ),
        ),
    ),
    AggregateFunction(
        "COLLECT_SET",
        "aggregate",
        "Collects the distinct values of a column; ksql.functions.collect_set.limit bounds their number.",
        "collect_set",
        None,
        (aggregate("(T) -> ARRAY<T>", lambda bound, config: CollectSet(bound.type(0), _limit(config, "collect_set"))),),
    ),
    AggregateFunction(
        "TOPK",
        "aggregate",
        "Returns the k largest values of a column, or structs of them and other columns, which go before k.",
        "topk",
        None,
        (
            *(
                aggregate(f"({type_}, INT) -> ARRAY<{type_}>", lambda bound, _config: TopK(bound), literals=1)
                for type_ in _SORTED
            ),
            *(
                aggregate(
                    f"({type_}, ANY, ANY..., INT)",
                    lambda bound, _config: TopK(bound),
                    literals=1,
                    result=_struct_result,
                )
                for type_ in _SORTED
            ),
        ),
    ),
    AggregateFunction(
        "TOPKDISTINCT",
        "aggregate",
        "Returns the k largest distinct values of a column.",
        "topkdistinct",
        None,
        tuple(
            aggregate(f"({type_}, INT)", lambda bound, _config: TopKDistinct(bound), literals=1, result=_array_of_first)
            for type_ in (*_SORTED, "DECIMAL", "DATE", "TIME", "TIMESTAMP", "BYTES")
        ),
    ),
    AggregateFunction(
        "COUNT_DISTINCT",
        "aggregate",
        "Estimates the number of distinct values of a column (HyperLogLog, exact for small numbers).",
        "count_distinct",
        None,
        (aggregate("(T) -> BIGINT", lambda bound, _config: CountDistinct(bound.type(0))),),
    ),
)
