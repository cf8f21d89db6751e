from __future__ import annotations

import inspect
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest

from millstream.core.records import Windowed
from millstream.errors import ExpressionError
from millstream.expr import (
    agg,
    array,
    col,
    compile_expr,
    evaluate,
    functions as f,
    key,
    left,
    lit,
    parse_type,
    right,
    struct,
    timestamp,
    value,
    when,
)


@dataclass
class Order:
    amount: int | None
    customer: Any = None


class Event(msgspec.Struct):
    amount: int


class Row(NamedTuple):
    amount: int


class Slotted:
    __slots__ = ("amount",)

    def __init__(self, amount: int) -> None:
        self.amount = amount


@pytest.mark.parametrize(
    "row",
    [
        {"amount": 3},
        OrderedDict(amount=3),
        MappingProxyType({"amount": 3}),
        Order(3),
        Event(3),
        Slotted(3),
        Row(3),
    ],
)
def test_fields_are_read_from_mappings_and_objects(row: Any) -> None:
    assert evaluate(col("amount"), value=row) == 3
    assert evaluate(col("amount") * 2, value=row) == 6
    assert evaluate(col("o.amount") + 1, value={"o": row}) == 4
    assert evaluate(key("amount") + col("amount"), key=row, value=row) == 6


def test_a_missing_field_is_null() -> None:
    double = compile_expr(col("amount") * 2, ("value",))
    assert double(None) is None
    assert double({}) is None
    assert double(Order(None)) is None
    assert evaluate(col("a.b.c"), value={"a": None}) is None
    assert evaluate(col("a.b.c"), value={}) is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Order(1), "a Order has no field 'amonut'; did you mean 'amount'?"),
        ("text", "a str has no field 'amonut'"),
        ([1], "a list has no field 'amonut'"),
        (5, "a int has no field 'amonut'"),
    ],
)
def test_an_object_without_the_field_is_an_error(row: Any, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        evaluate(col("amonut"), value=row)


def test_methods_and_internals_are_not_fields() -> None:
    with pytest.raises(AttributeError, match="a str has no field 'upper'"):
        evaluate(col("upper"), value="text")
    with pytest.raises(AttributeError, match="a Order has no field '__class__'"):
        evaluate(col("__class__"), value=Order(1))
    assert evaluate(col("__typename"), value={"__typename": "x"}) == "x"


def test_the_parts_of_a_windowed_key() -> None:
    assert evaluate(key("start") + 1, key=Windowed("k", 5, 10)) == 6


@pytest.mark.parametrize(
    ("expr", "params", "args", "result"),
    [
        (value() + 1, ("value",), (1,), 2),
        (value() + 1, ("key", "value"), ("k", 1), 2),
        (key(), ("key", "value"), ("k", 1), "k"),
        (key() + value(), ("key", "value"), ("k", "v"), "kv"),
        (key(), ("key", "left", "right"), ("k", 1, 2), "k"),
        (left() + 0, ("key", "left", "right"), ("k", 1, 2), 1),
        (right(), ("key", "left", "right"), ("k", 1, 2), 2),
        (left("x") - right("x"), ("key", "left", "right"), ("k", {"x": 1}, {"x": 5}), -4),
        (agg() + col("n"), ("key", "value", "agg"), ("k", {"n": 2}, 40), 42),
        (timestamp() + 1, ("key", "value", "timestamp", "agg"), ("k", 1, 5, 0), 6),
        (key() + timestamp(), ("key", "value", "timestamp", "agg"), (1, 1, 5, 0), 6),
        (lit(7), (), (), 7),
        (lit(7), ("value",), (1,), 7),
        (lit(7), ("key", "value"), (1, 2), 7),
    ],
)
def test_the_function_takes_exactly_its_parameters(expr: Any, params: Any, args: Any, result: Any) -> None:
    function = compile_expr(expr, params)
    assert function(*args) == result
    with pytest.raises(TypeError):
        function(*args, "one more")
    if len(params) <= 3:
        assert len(inspect.signature(function).parameters) == len(params)


@pytest.mark.parametrize(
    ("expr", "params", "message", "hint"),
    [
        (key(), ("value",), "`key` reads the key, which is not available here", "only the value is"),
        (col("a") + left("b"), ("key", "right"), "`a + left.b` reads the value, which", "only the key and right are"),
        (key(), (), "`key` reads the key, which is not available here", None),
    ],
)
def test_a_role_that_is_not_a_parameter_is_refused(expr: Any, params: Any, message: str, hint: str | None) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expr(expr, params)
    assert message in caught.value.message
    assert caught.value.hint == hint


@pytest.mark.parametrize("params", [("values",), ("key", "key")])
def test_parameters_are_roles(params: tuple[str, ...]) -> None:
    with pytest.raises(ExpressionError, match="parameters are different roles"):
        compile_expr(lit(1), params)


def test_the_types_of_the_roles_are_checked() -> None:
    schema = parse_type("struct<amount bigint>")
    assert compile_expr(col("amount") * 2, ("value",), {"value": schema})({"amount": 2}) == 4
    with pytest.raises(ExpressionError, match="has no field 'total'"):
        compile_expr(col("total") * 2, ("value",), {"value": schema})


def test_a_type_error_of_literals_is_refused_without_a_schema() -> None:
    with pytest.raises(ExpressionError, match="does not take STRING"):
        compile_expr(lit("a") * 2, ("value",))


def test_the_error_names_the_line_of_the_caller() -> None:
    with pytest.raises(ExpressionError, match=r"test_compile\.py:\d+: `key` reads"):
        compile_expr(key(), ("value",))


def test_every_record_has_its_own_containers() -> None:
    make = compile_expr(struct(a=array(1, 2), b=f.split("x,y", ",")), ("value",))
    first, second = make(None), make(None)
    first["a"].append(3)
    first["b"].append("z")
    assert second == {"a": [1, 2], "b": ["x", "y"]} == make(None)


def test_a_constant_call_that_fails_does_so_only_when_it_is_evaluated() -> None:
    guarded = compile_expr(when(col("n") == 0, lit(1) / 0).otherwise(1), ("value",))
    assert guarded({"n": 1}) == 1
    with pytest.raises(ZeroDivisionError):
        guarded({"n": 0})


def test_structs_may_be_nested() -> None:
    expr = struct(id=key(), order=struct(total=col("price") * col("count")), at=timestamp())
    function = compile_expr(expr, ("key", "value", "timestamp"))
    assert function("k", {"price": 2, "count": 3}, 5) == {"id": "k", "order": {"total": 6}, "at": 5}


def test_importing_expressions_loads_no_optional_modules() -> None:
    lazy = "{'hashlib', 'json', 'msgspec', 'uuid', 'zoneinfo'}"
    program = f"import sys, millstream.expr; print(sorted({lazy} & {{*sys.modules}}))"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
