"""User functions: types from annotations, conversions, nulls, and errors that say what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest

from millstream.errors import SqlStatementError
from millstream.schemas.python_types import Digits
from millstream.sql.functions import TypedArgument
from millstream.sql.functions.user import udaf, udf, udtf, unregister, user_catalogue
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, STRING, ArrayType, DecimalType, StructType


@dataclass
class Point:
    x: int
    y: float | None


POINT = StructType((("X", BIGINT), ("Y", DOUBLE)))


@pytest.fixture(autouse=True)
def _no_leftovers() -> Any:
    yield
    for name in ("MIRROR", "TOTAL", "PRICE", "OR_ELSE", "PARTS", "SPAN", "TWICE", "ABS"):
        unregister(name)


def call_of(name: Any, *types: Any) -> Any:
    return user_catalogue().resolve_scalar(name, [TypedArgument(type_) for type_ in types])


def test_structs_are_dataclasses() -> None:
    @udf
    def mirror(point: Point) -> list[Point]:
        return [point, Point(-point.x, None)]

    call = call_of("mirror", POINT)
    assert call.result == ArrayType(POINT)
    assert call.call({"X": 1, "Y": 2.0}) == [{"X": 1, "Y": 2.0}, {"X": -1, "Y": None}]
    assert mirror(Point(1, 2.0))[0] == Point(1, 2.0)


def test_integers_widen_and_arguments_may_be_many() -> None:
    @udf
    def total(first: int, *others: float) -> float:
        return first + sum(others)

    call = call_of("TOTAL", INTEGER, INTEGER, DOUBLE)
    assert call.result == DOUBLE
    assert call.call(1, 2.0, 3.0) == 6.0
    assert call.strict


def test_decimals_need_digits() -> None:
    @udf
    def price(amount: Annotated[Decimal, Digits(4, 2)]) -> Annotated[Decimal, Digits(6, 2)]:
        return amount * 2

    call = call_of("PRICE", DecimalType(4, 2))
    assert call.result == DecimalType(6, 2)
    assert str(call.call(Decimal("1.50"))) == "3.00"
    with pytest.raises(TypeError, match="Digits"):

        @udf
        def bare(amount: Decimal) -> int:
            return 1


def test_a_parameter_may_take_null() -> None:
    @udf
    def or_else(text: str | None, other: str) -> str:
        return text or other

    call = call_of("OR_ELSE", STRING, STRING)
    assert not call.strict
    assert [call.call(None, "x"), call.call("a", "x"), call.call("a", None)] == ["x", "a", None]


def test_a_table_function_returns_rows() -> None:
    @udtf
    def parts(text: str) -> list[str]:
        return text.split()

    call = user_catalogue().resolve_table("PARTS", [TypedArgument(STRING)])
    assert (call.result, call.call("a b")) == (STRING, ["a", "b"])
    with pytest.raises(TypeError, match="returns a list"):

        @udtf
        def single(text: str) -> str:
            return text


def test_an_aggregate_with_undo() -> None:
    @udaf
    class Span:
        """The sum of both coordinates."""

        def initial(self) -> Point:
            return Point(0, 0.0)

        def add(self, state: Point, point: Point) -> Point:
            return Point(state.x + point.x, (state.y or 0) + (point.y or 0))

        def undo(self, state: Point, point: Point) -> Point:
            return Point(state.x - point.x, (state.y or 0) - (point.y or 0))

        def merge(self, left: Point, right: Point) -> Point:
            return self.add(left, right)

        def finish(self, state: Point) -> str:
            return f"{state.x}/{state.y}"

    call = user_catalogue().resolve_aggregate("SPAN", [TypedArgument(POINT)])
    accumulator = call.accumulator
    state = accumulator.add(accumulator.initial(), {"X": 1, "Y": 0.5})
    assert (call.result, call.state, state) == (STRING, POINT, {"X": 1, "Y": 0.5})
    assert accumulator.add(state, None) == state
    assert accumulator.finish(accumulator.merge(state, state)) == "2/1.0"
    assert call.undo is not None
    assert call.undo(state, {"X": 1, "Y": 0.5}) == {"X": 0, "Y": 0.0}


def test_an_aggregate_without_undo_is_not_for_tables() -> None:
    @udaf(name="twice")
    class Doubled:
        def initial(self) -> int:
            return 0

        def add(self, state: int, value: int) -> int:
            return state + 2 * value

        def merge(self, left: int, right: int) -> int:
            return left + right

    assert user_catalogue().resolve_aggregate("TWICE", [TypedArgument(INTEGER)]).undo is None
    with pytest.raises(TypeError, match="no method merge"):

        @udaf
        class Half:
            def initial(self) -> int:
                return 0

            def add(self, state: int, value: int) -> int:
                return state


def test_a_signature_as_text_goes_before_annotations() -> None:
    @udf(name="abs", signature="(ARRAY<T>, DECIMAL(4, 2)) -> T")
    def first(items: Any, _amount: Any) -> Any:
        return items[0]

    call = call_of("ABS", ArrayType(STRING), DecimalType(4, 2))
    assert (call.result, call.call(["a"], None)) == (STRING, "a")
    with pytest.raises(SqlStatementError, match="does not accept"):
        call_of("ABS", INTEGER)


def test_annotations_that_are_missing_or_have_no_type() -> None:
    with pytest.raises(TypeError, match="parameter text has no annotation"):

        @udf
        def untyped(text) -> str:  # type: ignore[no-untyped-def]
            return text

    with pytest.raises(TypeError, match="no annotation of its result"):

        @udf
        def silent(text: str):  # type: ignore[no-untyped-def]
            return text

    with pytest.raises(TypeError, match="no SQL type"):

        @udf
        def odd(value: complex) -> str:
            return str(value)

    with pytest.raises(TypeError, match="no types with alternatives"):

        @udf
        def either(value: int | str) -> str:
            return str(value)

    with pytest.raises(TypeError, match="by position"):

        @udf
        def named(*, value: int) -> str:
            return str(value)
