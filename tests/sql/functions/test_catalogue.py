"""Every entry of the catalogue has documentation, and an example that is true."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.sql.functions import builtin_catalogue
from millstream.sql.functions.catalogue import AggregateFunction, ScalarFunction, TableFunction
from millstream.sql.functions.java.text import text_of
from millstream.sql.functions.signatures import Signature
from millstream.sql.types import ArrayType

CATALOGUE = list(builtin_catalogue())
SCALARS = [function for function in CATALOGUE if isinstance(function, ScalarFunction)]


@pytest.mark.parametrize("function", SCALARS, ids=lambda function: function.name)
def test_the_example_of_a_scalar_function_is_true(function: Any, shown: Any) -> None:
    assert function.example is not None
    assert function.name in function.example.expression
    assert shown(function.example.expression) == function.example.shown


@pytest.mark.parametrize("function", CATALOGUE, ids=lambda function: function.name)
def test_every_function_has_documentation_and_signatures(function: Any) -> None:
    assert function.documentation.endswith(".")
    assert "\n" not in function.documentation
    assert function.signatures
    for signature in function.signatures:
        assert sum(parameter.variadic for parameter in signature.parameters) <= 1


NAMES = {
    ScalarFunction: """
        COALESCE IFNULL NULLIF AS_VALUE
        ABS CEIL FLOOR ROUND TRUNC SIGN SQRT CBRT EXP LN LOG POWER SIN COS TAN COT SINH COSH TANH ASIN ACOS ATAN ATAN2
        DEGREES RADIANS PI RANDOM GREATEST LEAST GEO_DISTANCE
        CONCAT CONCAT_WS LEN UCASE LCASE TRIM INITCAP SUBSTRING REPLACE INSTR LPAD RPAD SPLIT SPLIT_TO_MAP
        REGEXP_EXTRACT REGEXP_EXTRACT_ALL REGEXP_REPLACE REGEXP_SPLIT_TO_ARRAY CHR ELT FIELD
        MASK MASK_LEFT MASK_RIGHT MASK_KEEP_LEFT MASK_KEEP_RIGHT MD5 UUID ENCODE TO_BYTES FROM_BYTES
        INT_FROM_BYTES BIGINT_FROM_BYTES DOUBLE_FROM_BYTES URL_ENCODE_PARAM URL_DECODE_PARAM URL_EXTRACT_PROTOCOL
        URL_EXTRACT_HOST URL_EXTRACT_PORT URL_EXTRACT_PATH URL_EXTRACT_QUERY URL_EXTRACT_FRAGMENT URL_EXTRACT_PARAMETER
        ARRAY_LENGTH ARRAY_CONTAINS ARRAY_CONCAT ARRAY_DISTINCT ARRAY_UNION ARRAY_INTERSECT ARRAY_EXCEPT ARRAY_REMOVE
        ARRAY_MIN ARRAY_MAX ARRAY_SORT ARRAY_JOIN SLICE GENERATE_SERIES ENTRIES AS_MAP MAP_KEYS MAP_VALUES MAP_UNION
        TRANSFORM FILTER REDUCE
        EXTRACTJSONFIELD IS_JSON_STRING JSON_ARRAY_LENGTH JSON_KEYS JSON_RECORDS JSON_ITEMS JSON_ARRAY_CONTAINS
        JSON_CONCAT TO_JSON_STRING
        UNIX_TIMESTAMP UNIX_DATE FROM_UNIXTIME FROM_DAYS DATEADD DATESUB TIMEADD TIMESUB TIMESTAMPADD TIMESTAMPSUB
        FORMAT_DATE FORMAT_TIME FORMAT_TIMESTAMP PARSE_DATE PARSE_TIME PARSE_TIMESTAMP STRINGTOTIMESTAMP
        TIMESTAMPTOSTRING STRINGTODATE DATETOSTRING CONVERT_TZ
    """,
    AggregateFunction: """
        COUNT SUM SUM_LIST AVG MIN MAX COLLECT_LIST COLLECT_SET TOPK TOPKDISTINCT LATEST_BY_OFFSET EARLIEST_BY_OFFSET
        HISTOGRAM COUNT_DISTINCT CORRELATION STDDEV_SAMP STDDEV_SAMPLE ATTR
    """,
    TableFunction: "EXPLODE CUBE_EXPLODE",
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_catalogue_has_the_functions_of_the_dialect(kind: Any) -> None:
    assert {function.name for function in CATALOGUE if isinstance(function, kind)} == set(NAMES[kind].split())


def test_the_examples_of_table_functions_are_true(evaluate: Any) -> None:
    for function in CATALOGUE:
        if isinstance(function, TableFunction):
            assert function.example is not None
            inner = function.example.expression.partition("(")[2].removesuffix(")")
            type_, value = evaluate(inner)
            call = function.resolve([_typed(type_)])
            assert text_of(ArrayType(call.result))(call.call(value)) == function.example.shown


def _typed(type_: Any) -> Any:
    from millstream.sql.functions import TypedArgument

    return TypedArgument(type_)


@pytest.mark.parametrize(
    "text",
    [
        "()",
        "(INTEGER, STRING...) -> ARRAY<STRING>",
        "(MAP<K, V>, LAMBDA (K, V) => R) -> MAP<K, R>",
        "(STRUCT<`A` STRING>, DECIMAL(4, 2)) -> DECIMAL",
        "(INTERVALUNIT, INTEGER) -> BOOLEAN",
    ],
)
def test_a_signature_prints_as_it_is_read(text: Any) -> None:
    assert str(Signature.parse(text.replace("INTERVALUNIT", "UNIT"))) == text


def test_a_misspelt_type_in_a_signature_is_refused() -> None:
    with pytest.raises(ValueError, match="'INTEGR' is not a type"):
        Signature.parse("(INTEGR) -> INT")
    with pytest.raises(ValueError, match="is missing"):
        Signature.parse("INT -> INT")
