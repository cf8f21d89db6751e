"""Functions that ksqlDB registers only in its own tests; its test files call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

from millstream.sql.functions import Accumulator, Catalogue, Config, builtin_catalogue
from millstream.sql.functions.catalogue import (
    AggregateFunction,
    ScalarFunction,
    TableFunction,
    aggregate,
    on,
    scalar,
)
from millstream.sql.functions.signatures import Bound
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, ArrayType, DecimalType, SqlType, StructType

_CATEGORY = "test"
_TEXT_STRUCT = "STRUCT<A STRING>"


def test_catalogue() -> Catalogue:
    """Returns the built-in functions and those of the tests. BAD_UDF counts its calls, so each case needs its own."""
    return _common().extended([_bad_udf()])


test_catalogue.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for that of a test


@cache
def _common() -> Catalogue:
    return builtin_catalogue().extended([*_scalars(), *_tables(), *_aggregates()])


# ----- scalar functions ----------------------------------------------------------------------------------------------


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_values: value


def _scalars() -> list[ScalarFunction]:
    return [
        scalar(
            "TEST_UDF",
            _CATEGORY,
            "Returns the name of the overload.",
            None,
            on("(INTEGER, STRING) -> STRING", _constant("doStuffIntString"), nulls=True),
            on("(BIGINT, STRING) -> STRING", _constant("doStuffLongString"), nulls=True),
            on("(BIGINT, BIGINT, STRING) -> STRING", _constant("doStuffLongLongString"), nulls=True),
            on("(BIGINT...) -> STRING", _constant("doStuffLongVarargs"), nulls=True),
            on(f"({_TEXT_STRUCT}) -> STRING", lambda struct: struct["A"]),
            on(f"() -> {_TEXT_STRUCT}", lambda: {"A": "foo"}),
        ),
        scalar(
            "WHENCONDITION",
            _CATEGORY,
            "Returns the first argument; raises if the second is FALSE.",
            None,
            on("(BOOLEAN, BOOLEAN) -> BOOLEAN", _when, nulls=True),
        ),
        scalar(
            "WHENRESULT",
            _CATEGORY,
            "Returns the first argument; raises if the second is FALSE.",
            None,
            on("(INTEGER, BOOLEAN) -> INTEGER", _when, nulls=True),
        ),
        scalar(
            "TOSTRUCT",
            _CATEGORY,
            "Makes a struct of a text.",
            None,
            on(f"(STRING) -> {_TEXT_STRUCT}", lambda text: {"A": text}, nulls=True),
        ),
    ]


def _when(value: Any, should_be_evaluated: bool | None) -> Any:
    if not should_be_evaluated:
        raise ValueError("this branch must not be evaluated")
    return value


def _bad_udf() -> ScalarFunction:
    calls = count(1)

    def fail_if(flag: bool) -> int:
        if flag:
            raise ValueError("boom")
        return 0

    return scalar(
        "BAD_UDF",
        _CATEGORY,
        "Raises, or returns NULL on every odd call.",
        None,
        on("(INTEGER) -> INTEGER", lambda _number: fail_if(True), nulls=True),
        on("(BOOLEAN) -> INTEGER", fail_if),
        on("(STRING) -> STRING", lambda text: None if next(calls) % 2 else text, nulls=True),
        deterministic=False,
    )


# ----- table functions -----------------------------------------------------------------------------------------------

_SEVEN = ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL", _TEXT_STRUCT)


def _tables() -> list[TableFunction]:
    def one(value: Any) -> list[Any]:
        return [value]

    singles = [on(f"({type_}) -> {type_}", one, nulls=True) for type_ in _SEVEN if type_ != "DECIMAL"]
    decimal = on("(DECIMAL) -> DECIMAL(30, 10)", one, nulls=True, result=lambda _bound: DecimalType(30, 10))
    sevens = [
        on(f"({', '.join(_SEVEN)}) -> STRING", _texts),
        on(f"({', '.join(f'ARRAY<{type_}>' for type_ in _SEVEN)}) -> STRING", _first_elements),
        on(f"({', '.join(f'MAP<STRING, {type_}>' for type_ in _SEVEN)}) -> STRING", _first_values),
    ]
    return [
        TableFunction(
            "TEST_UDTF", _CATEGORY, "Returns its arguments as rows.", "test_udtf", None, (*singles, decimal, *sevens)
        ),
        TableFunction(
            "THROWING_UDTF",
            _CATEGORY,
            "Raises if the argument is TRUE.",
            "throwing_udtf",
            None,
            (on("(BOOLEAN) -> BOOLEAN", _throwing, nulls=True),),
        ),
    ]


def _throwing(flag: bool | None) -> list[Any]:
    if flag:
        raise ValueError("you asked me to throw")
    return [flag]


def _texts(*values: Any) -> list[str]:
    return [_java_text(value) for value in values]


def _first_elements(*arrays: list[Any]) -> list[str]:
    return [_java_text(array[0]) for array in arrays]


def _first_values(*maps: dict[str, Any]) -> list[str]:
    return [_java_text(next(iter(map_.values()))) for map_ in maps]


def _java_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "Struct{" + ",".join(f"{name}={_java_text(item)}" for name, item in value.items()) + "}"
    return str(value)


# ----- aggregate functions -------------------------------------------------------------------------------------------


class _Sum(Accumulator):
    """Adds the weights of values to a start."""

    def __init__(self, state: SqlType, start: Any = 0, *, can_undo: bool = False, more: int = 0) -> None:
        self.state = state
        self.can_undo = can_undo
        self._start = start
        self._more = more

    def initial(self) -> Any:
        return self._start

    def add(self, state: Any, *values: Any) -> Any:
        return state + sum(map(_weight, values))

    def undo(self, state: Any, *values: Any) -> Any:
        return state - sum(map(_weight, values))

    def merge(self, left: Any, right: Any) -> Any:
        return left + right

    def finish(self, state: Any) -> Any:
        return state + self._more


def _weight(value: Any) -> Any:
    if value is None:
        return 0
    return len(value) if isinstance(value, str) else value


_PAIR = StructType((("A", INTEGER), ("B", INTEGER)))


class _PairSum(Accumulator):
    """Adds the fields of structs."""

    state = _PAIR

    def initial(self) -> Any:
        return {"A": 0, "B": 0}

    def add(self, state: Any, *values: Any) -> Any:
        return {name: state[name] + (values[0] or {}).get(name, 0) for name in ("A", "B")}

    def merge(self, left: Any, right: Any) -> Any:
        return self.add(left, right)


class _Collected(Accumulator):
    """Collects the first argument of rows without NULLs."""

    def __init__(self, element: SqlType) -> None:
        self.state = ArrayType(element)

    def initial(self) -> Any:
        return []

    def add(self, state: Any, *values: Any) -> Any:
        return state if None in values else [*state, values[0]]

    def merge(self, left: Any, right: Any) -> Any:
        return [*left, *right]


def _with_start(columns: int) -> Callable[[Bound, Config], Accumulator]:
    """Makes sums of columns that start with the weights of the literals after them."""
    return lambda bound, _config: _Sum(BIGINT, sum(map(_weight, bound.literals[columns:])))


def _test_sum(_bound: Bound, config: Config) -> Accumulator:
    return _Sum(BIGINT, int(config.get("ksql.functions.test_udaf.init", 0)), can_undo=True)


def _aggregates() -> list[AggregateFunction]:
    def entry(name: str, documentation: str, *overloads: Any) -> AggregateFunction:
        return AggregateFunction(name, _CATEGORY, documentation, name.lower(), None, overloads)

    texts = ", ".join(["STRING"] * 3)
    return [
        entry(
            "TEST_UDAF",
            "Sums numbers or lengths.",
            aggregate("(BIGINT) -> BIGINT", lambda _bound, _config: _Sum(BIGINT, can_undo=True)),
            aggregate("(INTEGER) -> BIGINT", _test_sum),
            aggregate("(DOUBLE) -> DOUBLE", lambda _bound, _config: _Sum(DOUBLE, 0.0)),
            aggregate("(STRING, STRING) -> BIGINT", _with_start(1), literals=1),
            aggregate("(STRUCT<A INTEGER, B INTEGER>) -> STRUCT<A INTEGER, B INTEGER>", lambda _b, _c: _PairSum()),
        ),
        entry(
            "MULTI_ARG",
            "Sums numbers and lengths of two columns.",
            aggregate("(BIGINT, STRING, INTEGER, STRING...) -> BIGINT", _with_start(2), literals=2),
        ),
        entry(
            "FOUR_ARG",
            "Sums numbers and lengths of four columns.",
            aggregate(f"(BIGINT, {texts}, INTEGER, STRING...) -> BIGINT", _with_start(4), literals=2),
        ),
        entry(
            "FIVE_ARG",
            "Sums numbers and lengths of five columns.",
            aggregate(f"(BIGINT, {texts}, INTEGER, INTEGER, STRING...) -> BIGINT", _with_start(5), literals=2),
        ),
        entry(
            "VAR_ARG",
            "Sums numbers and lengths.",
            aggregate("(BIGINT, STRING...) -> BIGINT", lambda _bound, _config: _Sum(BIGINT)),
        ),
        entry(
            "MID_VAR_ARG",
            "Sums numbers and lengths, and adds two numbers to the result.",
            aggregate(
                "(BIGINT, STRING..., INTEGER, INTEGER) -> BIGINT",
                lambda bound, _config: _Sum(BIGINT, more=sum(bound.literals[-2:])),
                literals=2,
            ),
        ),
        entry(
            "OBJ_COL_ARG",
            "Collects the first argument of rows without NULLs.",
            aggregate("(INTEGER, ANY...) -> ARRAY<INTEGER>", lambda _bound, _config: _Collected(INTEGER)),
        ),
        entry(
            "GENERIC_VAR_ARG",
            "Collects the first argument of rows without NULLs.",
            aggregate("(A, B, C...) -> ARRAY<A>", lambda bound, _config: _Collected(bound.types[0] or INTEGER)),
        ),
    ]
