"""Types of keys and values along a chain of operators: mypy checks the assertions, which do nothing at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import pytest

from millstream import (
    App,
    GlobalTable,
    GroupedStream,
    GroupedTable,
    JoinedStream,
    Record,
    Stream,
    Table,
    TestDriver,
    Windowed,
    WindowedStream,
    WindowedTable,
    avro,
    col,
    count,
    join_window,
    json_schema,
    protobuf,
    sum_,
    tumbling,
)
from millstream.core.records import Headers
from millstream.errors import ConfigError
from millstream.testing import TestInput, TestOutput


@dataclass
class Order:
    """A value."""

    customer: str
    amount: int


def test_streams() -> None:
    app = App("types")
    orders = app.stream("orders", key=str, value=Order)
    assert_type(orders, Stream[str, Order])
    assert_type(orders.filter(lambda order: order.amount > 3), Stream[str, Order])
    assert_type(orders.map_values(lambda order: order.amount), Stream[str, int])
    assert_type(orders.map_values(lambda key, order: f"{key}{order.amount}"), Stream[str, str])
    assert_type(orders.select_key(lambda order: order.customer), Stream[str, Order])
    assert_type(orders.map(lambda key, order: (order.amount, key)), Stream[int, str])
    assert_type(orders.flat_map_values(lambda order: [order.amount]), Stream[str, int])
    assert_type(orders.merge(orders), Stream[str, Order])
    assert_type(orders.split({"big": lambda order: order.amount > 3})["big"], Stream[str, Order])


def test_groups_and_windows() -> None:
    app = App("types")
    orders = app.stream("orders", key=str, value=Order)
    grouped = orders.group_by(lambda order: order.amount, key=int)
    assert_type(grouped, GroupedStream[int, Order])
    assert_type(grouped.count(), Table[int, int])
    assert_type(grouped.aggregate(lambda: 0.5, lambda order, agg: agg + order.amount, value=float), Table[int, float])
    windowed = orders.group_by_key().windowed_by(tumbling("1m"))
    assert_type(windowed, WindowedStream[str, Order])
    assert_type(windowed.count(), WindowedTable[Windowed[str], int])
    assert_type(windowed.sum(lambda order: order.amount), WindowedTable[Windowed[str], int])
    assert_type(windowed.avg(col("amount")), WindowedTable[Windowed[str], float])
    assert_type(windowed.avg(col("amount")).late(), Stream[Any, Any])
    assert_type(grouped.sum(lambda order: order.amount), Table[int, int])
    assert_type(grouped.sum(col("amount"), value=float), Table[int, float])
    assert_type(grouped.max(col("amount")), Table[int, Any])
    assert_type(grouped.last(), Table[int, Order])
    assert_type(grouped.avg(col("amount")), Table[int, float])
    assert_type(grouped.count_distinct(col("customer")), Table[int, int])
    assert_type(grouped.collect(col("customer")), Table[int, list[Any]])
    assert_type(grouped.aggregate(n=count(), total=sum_(col("amount"))), Table[int, dict[str, Any]])
    assert_type(windowed.aggregate(n=count(), value=Order), WindowedTable[Windowed[str], Order])


def test_keys_are_strings_unless_declared_otherwise() -> None:
    app = App("types")
    assert_type(app.stream("lines", value=str), Stream[str, str])
    assert_type(app.stream("any"), Stream[str, Any])
    assert_type(app.stream("named", value="long"), Stream[str, Any])
    assert_type(app.stream("numbered", key="long"), Stream[Any, Any])
    assert_type(app.table("rows", value=int), Table[str, int])
    assert_type(app.global_table("places", value=str), GlobalTable[str, str])


def test_functions_that_read_headers() -> None:
    def trace(order: Order, headers: Headers) -> int:
        return len(headers) + order.amount

    orders = App("types").stream("orders", value=Order)
    assert_type(orders.map_values(trace), Stream[str, int])
    assert_type(orders.map_values(lambda order, headers: len(headers)), Stream[str, int])


def test_stores_by_their_tables() -> None:
    app = App("types")
    totals = app.stream("orders", value=Order).group_by_key().sum(lambda order: order.amount, value=int, store="totals")
    with TestDriver(app) as driver:
        driver.input("orders").pipe("ann", Order("ann", 5))
        assert_type(driver.store(totals).get("ann"), int | None)
        assert driver.store(totals).get("ann") == 5


def test_misspelt_settings_are_refused() -> None:
    App("types", num_tasks=2, topology_optimization="all")
    with pytest.raises(ConfigError, match=r"did you mean 'num\.tasks'"):
        App("types", num_taks=2)  # type: ignore[call-arg]


def test_tables_and_joins() -> None:
    app = App("types")
    orders = app.stream("orders", key=str, value=Order)
    names = app.table("names", key=str, value=str)
    assert_type(names, Table[str, str])
    assert_type(names.map_values(len), Table[str, int])
    assert_type(names.filter(lambda name: name != "x"), Table[str, str])
    assert_type(orders.join(names, lambda order, name: f"{order.customer}{name}"), JoinedStream[str, str])
    payments = app.stream("payments", key=str, value=int)
    assert_type(
        orders.join(payments, lambda order, paid: order.amount - paid, join_window("1m")), JoinedStream[str, int]
    )
    assert_type(names.join(names, lambda a, b: a == b), Table[str, bool])
    grouped = names.group_by(lambda key, name: (name, len(key)), key=str, value=int)
    assert_type(grouped, GroupedTable[str, int])


def test_expressions_replace_functions() -> None:
    app = App("types")
    orders = app.stream("orders", key=str, value=Order)
    assert_type(orders.filter(col("amount") > 3), Stream[str, Order])
    countries: GlobalTable[str, str] = app.global_table("countries", key=str, value=str)
    orders.join(countries, lambda order, name: (order, name), on=col("customer"))


def test_the_driver() -> None:
    app = App("types")
    app.stream("in", key=str, value=int).to("out")
    with TestDriver(app) as driver:
        numbers = driver.input("in", key=str, value=int)
        assert_type(numbers, TestInput[str, int])
        numbers.pipe("k", 5)
        results = driver.output("out", key=str, value=int)
        assert_type(results, TestOutput[str, int])
        assert_type(results.read(), Record[str, int])
        assert_type(driver.input("in"), TestInput[Any, Any])


def test_type_checkers_report_misspelt_attributes() -> None:
    """mypy reports unneeded ignores, so these lines assert that it reports the mistakes."""
    app = App("types")
    with pytest.raises(AttributeError):
        _ = app.stream("orders").filtr  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = app.table("prices").to  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = app.strem  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = tumbling("1m").advance_by  # type: ignore[attr-defined]


def test_serdes_with_schemas_have_the_type_of_their_values() -> None:
    app = App("typed")
    assert_type(app.stream("avro", key=avro(str), value=avro(Order)), Stream[str, Order])
    assert_type(app.stream("json", value=json_schema(Order)), Stream[str, Order])
    stream = app.stream("protobuf", value=protobuf(Order))
    assert_type(stream, Stream[str, Order])
    assert_type(stream.map_values(lambda order: order.amount), Stream[str, int])
    assert_type(app.stream("any", value=avro()), Stream[str, Any])
