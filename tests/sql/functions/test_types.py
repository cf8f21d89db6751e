"""Casts, implicit conversions, common types, and the choice of overloads."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from millstream.errors import SqlStatementError
from millstream.sql.functions import (
    LambdaArgument,
    TypedArgument,
    UnitArgument,
    builtin_catalogue,
    cast,
    coerce,
    common_type,
    ensure_fit,
    literal_type,
    resolve_scalar,
    widening,
    widens,
)
from millstream.sql.functions.catalogue import Catalogue, on, scalar
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructType,
)

DEC = DecimalType(4, 2)


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        (BIGINT, 2**31, INTEGER, -(2**31)),
        (DOUBLE, 1.9, INTEGER, 1),
        (DOUBLE, -1.9, BIGINT, -1),
        (DOUBLE, 1e300, INTEGER, 2**31 - 1),
        (DOUBLE, float("nan"), INTEGER, 0),
        (DecimalType(12, 1), Decimal("4294967297.9"), INTEGER, 1),
        (DOUBLE, 1.005, DEC, Decimal("1.01")),
        (DOUBLE, 1.005, DecimalType(3, 2), Decimal("1.00")),
        (DOUBLE, 0.1, DecimalType(20, 19), Decimal("0.1000000000000000056")),
        (DEC, Decimal("9.99"), DecimalType(2, 1), Decimal("10.0")),
        (DEC, Decimal("1.25"), DecimalType(2, 1), Decimal("1.3")),
        (DEC, Decimal("-1.25"), DecimalType(2, 1), Decimal("-1.3")),
        (STRING, " 1.255 ", DEC, Decimal("1.26")),
        (INTEGER, 7, DEC, Decimal("7.00")),
        (STRING, " +12 ", INTEGER, 12),
        (STRING, "1e3", DOUBLE, 1000.0),
        (STRING, " YE ", BOOLEAN, True),
        (STRING, "no", BOOLEAN, False),
        (STRING, "1", BOOLEAN, False),
        (STRING, "2020-05", DATE, 18383),
        (STRING, "10:15:30.5", TIME, 36930500),
        (STRING, "2020-05-01T10:15:30.123-0130", TIMESTAMP, 1588333530123),
        (STRING, "2020-05-01T10", TIMESTAMP, 1588327200000),
        (STRING, " 2020-05-01T10Z ", TIMESTAMP, 1588327200000),
        (STRING, "2020-05-01T1", TIMESTAMP, 1588327200000),
        (STRING, "2020-05-01T12:00+2", TIMESTAMP, 1588327200000),
        (STRING, " 2020 ", DATE, 18262),
        (STRING, "YWI=", BYTES, b"ab"),
        (TIMESTAMP, -1, DATE, -1),
        (TIMESTAMP, -1, TIME, 86_399_999),
        (DATE, 1, TIMESTAMP, 86_400_000),
        (BOOLEAN, True, STRING, "true"),
        (DOUBLE, 1e10, STRING, "1.0E10"),
        (DecimalType(20, 10), Decimal("1E-10"), STRING, "0.0000000001"),
        (TIME, 36_900_000, STRING, "10:15"),
        (TIMESTAMP, 253402300800000, STRING, "+10000-01-01T00:00:00.000"),
        (ArrayType(INTEGER), [7, None], STRING, "[7, null]"),
        (MapType(STRING, INTEGER), {"a": 1, "b": None}, STRING, "{a=1, b=null}"),
        (StructType((("A", INTEGER), ("B", STRING))), {"A": None, "B": "x"}, STRING, "Struct{B=x}"),
        (ArrayType(BIGINT), [1, None], ArrayType(STRING), ["1", None]),
        (MapType(STRING, BIGINT), {"1": 2**31}, MapType(INTEGER, INTEGER), {1: -(2**31)}),
        (
            StructType((("A", INTEGER), ("B", STRING))),
            {"A": 1, "B": "x"},
            StructType((("A", STRING), ("C", STRING))),
            {"A": "1", "C": None},
        ),
    ],
)
def test_a_cast(source: Any, value: Any, target: Any, expected: Any) -> None:
    convert = cast(source, target)
    assert convert is not None
    result = convert(value)
    assert result == expected
    assert type(result) is type(expected)
    assert str(result) == str(expected)


@pytest.mark.parametrize(
    ("source", "value", "target"),
    [
        (STRING, "abc", INTEGER),
        (STRING, "1.5", INTEGER),
        (STRING, str(2**31), INTEGER),
        (STRING, "NaN", DOUBLE),
        (STRING, "1e400", DOUBLE),
        (STRING, "1" * 500, BIGINT),
        (STRING, "100", DEC),
        (STRING, "1e999999999", DEC),
        (INTEGER, 100, DEC),
        (DOUBLE, 99.999, DEC),
        (DOUBLE, float("inf"), DEC),
        (STRING, "2020-02-30", DATE),
        (STRING, "x", TIMESTAMP),
        (STRING, "2020T", TIMESTAMP),
        (STRING, "2020-05T10", TIMESTAMP),
        (STRING, "2020-5-1", TIMESTAMP),
        (STRING, "2020-05-01T10:00:00.1234", TIMESTAMP),
        (STRING, "2020-05-01T10:00+19", TIMESTAMP),
        (STRING, "2020-05-01Z", TIMESTAMP),
        (STRING, "25:00", TIME),
        (STRING, "***", BYTES),
    ],
)
def test_a_value_that_cannot_be_cast_raises(source: Any, value: Any, target: Any) -> None:
    convert = cast(source, target)
    assert convert is not None
    with pytest.raises((ValueError, ArithmeticError)):
        convert(value)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (STRING, ArrayType(STRING)),
        (BYTES, STRING),
        (BOOLEAN, INTEGER),
        (INTEGER, BOOLEAN),
        (DATE, TIME),
        (INTEGER, DATE),
        (BOOLEAN, DEC),
        (DEC, BOOLEAN),
        (ArrayType(INTEGER), MapType(STRING, INTEGER)),
        (ArrayType(BYTES), ArrayType(STRING)),
    ],
)
def test_a_cast_that_does_not_exist_is_refused(source: Any, target: Any) -> None:
    with pytest.raises(SqlStatementError, match="is not supported"):
        cast(source, target)


def test_a_cast_to_the_same_type_does_nothing() -> None:
    for type_ in (STRING, DEC, ArrayType(DATE)):
        assert cast(type_, type_) is None
    assert cast(INTEGER, BIGINT) is None


def test_ensure_fit_does_not_round() -> None:
    assert str(ensure_fit(Decimal("1.5"), DEC)) == "1.50"
    with pytest.raises(ArithmeticError, match="without rounding"):
        ensure_fit(Decimal("1.555"), DEC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2**31 - 1, "INTEGER"), (2**31, "BIGINT"), (Decimal("0.10"), "DECIMAL(3, 2)"), (Decimal("10.0"), "DECIMAL(3, 1)")],
)
def test_the_type_of_a_literal(value: Any, expected: Any) -> None:
    assert str(literal_type(value)) == expected


def test_implicit_conversions() -> None:
    assert widens(BIGINT, DecimalType(19, 0))
    assert widens(DEC, DOUBLE)
    assert widens(ArrayType(INTEGER), ArrayType(DOUBLE))
    assert not widens(INTEGER, STRING)
    assert not widens(DecimalType(5, 2), DEC)
    assert not widens(DATE, TIMESTAMP)
    with pytest.raises(SqlStatementError, match="without a CAST"):
        widening(DOUBLE, INTEGER)


# ----- common types --------------------------------------------------------------------------------------------------


def literal(value: Any) -> Any:
    return TypedArgument(literal_type(value), value)


def column(type_: Any) -> Any:
    return TypedArgument(type_)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([literal(None), literal(None)], "None"),
        ([literal(None), column(INTEGER), column(BIGINT)], "BIGINT"),
        ([column(DEC), column(DecimalType(5, 1))], "DECIMAL(6, 2)"),
        ([column(DEC), column(DOUBLE)], "DOUBLE"),
        ([column(STRING), literal(True), literal(10), literal(Decimal("10.30"))], "STRING"),
        ([column(INTEGER), literal("2147483648")], "BIGINT"),
        ([column(INTEGER), literal("1.50")], "DECIMAL(12, 2)"),
        ([literal("a"), literal(1), literal(Decimal("2.50")), literal(True)], "STRING"),
        ([literal(1), literal("2"), literal("3000000000")], "BIGINT"),
        ([column(DOUBLE), literal("1.5")], "DOUBLE"),
        ([column(BOOLEAN), literal("Ye")], "BOOLEAN"),
        ([column(STRING), column(DATE)], "DATE"),
        ([column(ArrayType(INTEGER)), column(ArrayType(BIGINT))], "ARRAY<BIGINT>"),
        (
            [column(StructType((("A", INTEGER),))), column(StructType((("A", BIGINT), ("B", STRING))))],
            "STRUCT<`A` BIGINT, `B` STRING>",
        ),
        (
            [column(StructType((("A", INTEGER), ("B", DATE)))), column(StructType((("C", STRING), ("B", STRING))))],
            "STRUCT<`C` STRING, `B` DATE, `A` INTEGER>",
        ),
    ],
)
def test_the_common_type_of_a_list(items: Any, expected: Any) -> None:
    assert str(common_type(items)) == expected


def test_literals_in_constructors_adapt() -> None:
    numbers = column(MapType(STRING, BIGINT))
    good = TypedArgument(MapType(STRING, STRING), parts=((literal("a"),), (literal("10"),)))
    assert common_type([numbers, good]) == MapType(STRING, BIGINT)
    convert = coerce(good, MapType(STRING, BIGINT))
    assert convert is not None
    assert convert({"a": "10"}) == {"a": 10}
    bad = TypedArgument(MapType(STRING, STRING), parts=((literal("a"),), (literal("not 10"),)))
    with pytest.raises(SqlStatementError, match='invalid input syntax for type BIGINT: "not 10"'):
        common_type([numbers, bad])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([column(BOOLEAN), literal("maybe")], 'invalid input syntax for type BOOLEAN: "maybe".'),
        ([column(INTEGER), literal("x")], 'invalid input syntax for type INTEGER: "x".'),
        ([column(INTEGER), column(STRING)], "operator does not exist: INTEGER = STRING"),
        ([literal("1"), column(INTEGER)], "operator does not exist: STRING = INTEGER"),
        ([literal(1), column(STRING)], "operator does not exist: INTEGER = STRING"),
        ([column(BOOLEAN), literal(1)], "operator does not exist: BOOLEAN = INTEGER"),
        ([column(ArrayType(INTEGER)), literal(1)], "operator does not exist"),
    ],
)
def test_lists_without_a_common_type(items: Any, message: Any) -> None:
    with pytest.raises(SqlStatementError) as caught:
        common_type(items)
    assert message in str(caught.value)


# ----- overloads -----------------------------------------------------------------------------------------------------


def catalogue_of(*signatures: Any) -> Any:
    overloads = [on(f"{text} -> STRING", lambda *_values, text=text: text) for text in signatures]
    return Catalogue([scalar("F", "test", "A function.", None, *overloads)])


@pytest.mark.parametrize(
    ("signatures", "types", "chosen"),
    [
        (["(INT)", "(BIGINT)"], [INTEGER], "(INT)"),
        (["(BIGINT)"], [INTEGER], "(BIGINT)"),
        (["(STRING...)", "(STRING, STRING)"], [STRING, STRING], "(STRING, STRING)"),
        (["(T)", "(INT)"], [INTEGER], "(INT)"),
        (["(ANY...)", "(STRING...)"], [STRING], "(STRING...)"),
        (["(INT, STRING...)", "(INT...)"], [INTEGER], "(INT, STRING...)"),
        (["(STRING..., INT)", "(INT, STRING...)"], [INTEGER], "(INT, STRING...)"),
        (["(ARRAY<T>, T)", "(T, T)"], [ArrayType(INTEGER), INTEGER], "(ARRAY<T>, T)"),
        (["(DECIMAL)", "(STRING)"], [BIGINT], "(DECIMAL)"),
        (["(BIGINT, STRING)", "(BIGINT...)"], [BIGINT, None], "(BIGINT, STRING)"),
    ],
)
def test_the_best_overload_is_chosen(signatures: Any, types: Any, chosen: Any) -> None:
    call = catalogue_of(*signatures).resolve_scalar("f", [TypedArgument(type_) for type_ in types])
    assert call.call(*types) == chosen


@pytest.mark.parametrize(
    ("signatures", "types"),
    [(["(BIGINT)", "(DOUBLE)"], [INTEGER]), (["(INT)", "(STRING)"], [None])],
)
def test_a_tie_is_refused(signatures: Any, types: Any) -> None:
    arguments = [TypedArgument(type_) for type_ in types]
    with pytest.raises(SqlStatementError) as caught:
        catalogue_of(*signatures).resolve_scalar("f", arguments)
    shown = "null" if types[0] is None else "INTEGER"
    assert f"Function 'f' cannot be resolved due to ambiguous method parameters ({shown})." in str(caught.value)


def test_no_match_lists_the_signatures() -> None:
    with pytest.raises(SqlStatementError) as caught:
        resolve_scalar("DATEADD", [column(DATE), column(INTEGER), column(DATE)])
    message = str(caught.value)
    assert "Function 'dateadd' does not accept parameters (DATE, INTEGER, DATE)." in message
    assert "dateadd(INTERVALUNIT, INTEGER, DATE)" in message


def test_an_unknown_function_has_a_suggestion() -> None:
    with pytest.raises(SqlStatementError) as caught:
        resolve_scalar("SUBSTRNG", [column(STRING)])
    assert "Can't find any functions with the name 'SUBSTRNG'" in str(caught.value)
    assert "SUBSTRING" in str(caught.value)


def test_variables_do_not_widen() -> None:
    with pytest.raises(SqlStatementError, match="does not accept parameters"):
        resolve_scalar("IFNULL", [column(INTEGER), column(BIGINT)])


def test_a_result_of_nulls_only_has_no_type() -> None:
    with pytest.raises(SqlStatementError, match="is not known"):
        resolve_scalar("COALESCE", [TypedArgument(None), TypedArgument(None)])


def test_arguments_are_converted() -> None:
    call = resolve_scalar("TIMEADD", [UnitArgument("HOUR"), column(INTEGER), column(STRING)])
    convert = call.converters[2]
    assert call.converters[:2] == (None, None)
    assert convert is not None
    assert call.call("HOUR", 1, convert("10:00")) == 11 * 3_600_000


def test_the_body_of_a_lambda_decides_the_result() -> None:
    seen = []

    def infer(types: Any) -> Any:
        seen.append(types)
        return DOUBLE

    call = resolve_scalar("TRANSFORM", [column(ArrayType(INTEGER)), LambdaArgument(1, infer)])
    assert (call.result, seen) == (ArrayType(DOUBLE), [(INTEGER,)])
    with pytest.raises(SqlStatementError, match="does not accept"):
        resolve_scalar("REDUCE", [column(ArrayType(INTEGER)), column(INTEGER), LambdaArgument(2, infer)])
    with pytest.raises(SqlStatementError, match="does not accept"):
        resolve_scalar("TRANSFORM", [column(ArrayType(INTEGER)), LambdaArgument(2, infer)])


def test_kinds_of_functions_are_told_apart() -> None:
    catalogue = builtin_catalogue()
    assert catalogue.is_aggregate("sum")
    assert catalogue.is_table_function("Explode")
    assert not catalogue.is_aggregate("ABS")
    with pytest.raises(SqlStatementError, match="SUM is an aggregate function"):
        catalogue.resolve_scalar("SUM", [column(INTEGER)])
    with pytest.raises(SqlStatementError, match="already a function"):
        catalogue.extended([catalogue.find("ABS")])
