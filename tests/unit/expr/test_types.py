from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st

from millstream.errors import ExpressionError
from millstream.expr import (
    ANY,
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    parse_type,
)
from millstream.expr.types import NULL, MismatchError, common_type

SCALARS: list[DataType] = [BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL, STRING, BYTES, DATE, TIME, TIMESTAMP, ANY, NULL]


def structs(of: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.dictionaries(st.text(min_size=1, max_size=5), of, max_size=3)
    return fields.map(lambda d: StructType(tuple(d.items())))


data_types = st.recursive(
    st.sampled_from(SCALARS) | st.builds(DecimalType, st.integers(5, 30), st.integers(0, 5)),
    lambda of: of.map(ArrayType) | st.builds(MapType, of, of) | structs(of),
    max_leaves=6,
)


@given(data_types)
def test_types_round_trip_as_text(type_: DataType) -> None:
    assert parse_type(str(type_)) == type_


@given(data_types)
def test_a_pickled_type_equals_the_original(type_: DataType) -> None:
    copy = pickle.loads(pickle.dumps(type_))
    assert copy == type_
    assert hash(copy) == hash(type_)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("bigint", BIGINT),
        ("INTEGER", INT),
        ("varchar", STRING),
        (" array < int > ", ArrayType(INT)),
        ("decimal(4,2)", DecimalType(4, 2)),
        ("STRUCT<>", StructType(())),
        ("map<string, array<double>>", MapType(STRING, ArrayType(DOUBLE))),
        ("struct<`a b` int, Type string>", StructType((("a b", INT), ("Type", STRING)))),
    ],
)
def test_type_names_are_not_case_sensitive(text: str, type_: DataType) -> None:
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it ends too early"),
        ("bigit", "there is no type BIGIT"),
        ("array<int", "it ends too early"),
        ("array(int)", r"expected '<', not '\('"),
        ("int int", "'int' is left over"),
        ("map<int>", "expected ',', not '>'"),
        ("decimal(x, 2)", "a decimal is written"),
        ("struct<a int, a int>", "the field 'a' twice"),
        ("decimal(2, 3)", r"DECIMAL\(2, 3\) is not a type"),
    ],
)
def test_text_that_is_not_a_type_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_type(text)


def test_a_misspelt_type_gets_a_suggestion() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_type("bigit")
    assert caught.value.hint == "did you mean 'BIGINT'?"


def test_types_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        ArrayType(INT).element = STRING  # type: ignore[misc]


@pytest.mark.parametrize(
    ("types", "result"),
    [
        ([INT, BIGINT], BIGINT),
        ([BIGINT, DECIMAL], DECIMAL),
        ([DecimalType(4, 2), DOUBLE], DOUBLE),
        ([DecimalType(4, 2), DecimalType(5, 2)], DECIMAL),
        ([NULL, STRING, NULL], STRING),
        ([STRING, ANY], ANY),
        ([TIMESTAMP, BIGINT], TIMESTAMP),
        ([ArrayType(INT), ArrayType(DOUBLE)], ArrayType(DOUBLE)),
        ([MapType(STRING, INT), MapType(STRING, BIGINT)], MapType(STRING, BIGINT)),
        ([StructType((("a", INT),)), StructType((("a", BIGINT),))], StructType((("a", BIGINT),))),
        ([], NULL),
    ],
)
def test_the_common_type_includes_all_values(types: list[DataType], result: DataType) -> None:
    assert common_type(types) == result


@pytest.mark.parametrize("types", [[STRING, INT], [BOOLEAN, INT], [DATE, TIMESTAMP], [ArrayType(INT), INT]])
def test_types_without_a_common_type(types: list[DataType]) -> None:
    with pytest.raises(MismatchError, match="have no common type"):
        common_type(types)
