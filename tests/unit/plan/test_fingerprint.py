"""Fingerprints: equal for equal topologies, different for every change that can affect state."""

from __future__ import annotations

import json
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from tests.conformance.interpreter import Topology as VectorTopology
from tests.conformance.vectors import load

from millstream import (
    App,
    Materialized,
    Processor,
    Record,
    Table,
    agg,
    col,
    hopping,
    join_window,
    left,
    right,
    session,
    sliding,
    tumbling,
    unlimited,
    until_time_limit,
    until_window_closes,
    value,
)
from millstream.core.frozen import Frozen
from millstream.plan.fingerprint import fingerprint, to_dict
from millstream.plan.functions import Function
from millstream.plan.node import Node
from millstream.serde import Serde


def of(build: Callable[[App], object], application_id: str = "app", **options: Any) -> str:
    app = App(application_id, **options)
    build(app)
    return app.fingerprint()


def orders(app: App) -> None:
    large = app.stream("orders", value=dict).filter(lambda order: order["amount"] > 10)
    large.group_by_key().aggregate(dict, lambda order, total: {**total, **order}, value=dict, store="sums")


def orders_written_otherwise(app: App) -> None:
    def is_large(key: str, order: dict[str, Any]) -> bool:
        return bool(key) and order["amount"] > 99

    def add(order: dict[str, Any], total: dict[str, Any]) -> dict[str, Any]:
        return total | order

    source = app.stream("orders", value=dict)

    sums = source.filter(is_large).group_by_key()
    sums.aggregate(dict, add, value=dict, store="sums")


def test_a_fingerprint_is_short_and_stable() -> None:
    digest = of(orders)
    assert len(digest) == 16
    assert int(digest, 16) >= 0
    assert of(orders) == digest


def test_functions_names_and_lines_do_not_matter() -> None:
    assert of(orders_written_otherwise) == of(orders)


def test_the_application_id_does_not_matter() -> None:
    assert of(orders, "one") == of(orders, "two")


def test_the_order_of_independent_calls_does_not_matter() -> None:
    def one(app: App) -> None:
        app.stream("a").group_by_key().count()

    def two(app: App) -> None:
        app.stream("b").to_table(store="rows")

    def one_two(app: App) -> None:
        one(app)
        two(app)

    def two_one(app: App) -> None:
        two(app)
        one(app)

    assert of(one_two) == of(two_one)


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    """It depends neither on hashes of strings nor on addresses of objects."""
    code = """
        from millstream import App, col
        app = App("app")
        app.stream("a", "b").filter(col("x") > 1).group_by(lambda v: v).count(store="n").to_stream().to("c")
        print(app.fingerprint())
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_fingerprint_is_that_of_the_optimized_plan() -> None:
    def joined_with_itself(app: App) -> None:
        stream = app.stream("a", value=str)
        stream.join(stream, lambda a, _b: a, join_window("1s"))

    assert of(joined_with_itself) != of(joined_with_itself, topology_optimization="all")


def table(app: App, **options: Any) -> Table[str, Any]:
    return app.table("t", value=dict, **options)


def counted(app: App, window: Any, **options: Any) -> Any:
    return app.stream("a", value=str).group_by_key().windowed_by(window, **options).count(store="n")


def joined(app: App, window: Any, how: str = "join") -> None:
    getattr(app.stream("a", value=str), how)(app.stream("b", value=str), lambda a, _b: a, window)


def suppressed(app: App, until: Any) -> None:
    counted(app, tumbling("1m")).suppress(until).to_stream().to("out")


class Silent(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def processed(app: App, *stores: str) -> None:
    app.add_store("s")
    app.stream("a").process(Silent, *stores)


def summed(app: App, aggregator: Any) -> None:
    app.stream("a").group_by_key().aggregate(int, aggregator, store="n", value=int)


CHANGES: dict[str, tuple[Callable[[App], object], Callable[[App], object]]] = {
    "topic": (lambda a: a.stream("a").to("x"), lambda a: a.stream("b").to("x")),
    "one more topic": (lambda a: a.stream("a", name="s"), lambda a: a.stream("a", "b", name="s")),
    "pattern": (lambda a: a.stream(pattern="a.*", name="s"), lambda a: a.stream(pattern="b.*", name="s")),
    "key serde": (lambda a: a.stream("a", key=str), lambda a: a.stream("a", key=int)),
    "value serde": (lambda a: a.stream("a", value=str), lambda a: a.stream("a", value=int)),
    "offset reset": (lambda a: a.stream("a"), lambda a: a.stream("a", offset_reset="latest")),
    "timestamps": (lambda a: a.stream("a"), lambda a: a.stream("a", timestamp="wall_clock")),
    "invalid timestamps": (lambda a: a.stream("a"), lambda a: a.stream("a", on_invalid_timestamp="skip")),
    "expression": (lambda a: a.stream("a").filter(col("x") > 1), lambda a: a.stream("a").filter(col("x") > 2)),
    "expression or function": (lambda a: a.stream("a").filter(col("x")), lambda a: a.stream("a").filter(bool)),
    "another operator": (lambda a: a.stream("a").peek(print, name="p"), lambda a: a.stream("a").filter(bool, name="p")),
    "negation": (lambda a: a.stream("a").filter(bool, name="f"), lambda a: a.stream("a").filter_not(bool, name="f")),
    "one more operator": (lambda a: a.stream("a"), lambda a: a.stream("a").peek(print)),
    "name of an operator": (lambda a: a.stream("a").peek(print), lambda a: a.stream("a").peek(print, name="p")),
    "sink": (lambda a: a.stream("a").to("x", name="s"), lambda a: a.stream("a").to("y", name="s")),
    "sink by function": (lambda a: a.stream("a").to("x", name="s"), lambda a: a.stream("a").to(str, name="s")),
    "sink partitioner": (
        lambda a: a.stream("a").to("x"),
        lambda a: a.stream("a").to("x", partitioner=lambda _k, _v, _n: 0),
    ),
    "partitions": (
        lambda a: a.stream("a").repartition(name="r"),
        lambda a: a.stream("a").repartition(name="r", partitions=8),
    ),
    "name of a repartition": (
        lambda a: a.stream("a").repartition(name="r"),
        lambda a: a.stream("a").repartition(name="q"),
    ),
    "default branch": (
        lambda a: a.stream("a").split({"x": bool}),
        lambda a: a.stream("a").split({"x": bool}, default="y"),
    ),
    "aggregation": (
        lambda a: a.stream("a", value=int).group_by_key().count(store="n", name="n"),
        lambda a: a.stream("a", value=int).group_by_key().sum(store="n", name="n"),
    ),
    "aggregation's expression": (
        lambda a: summed(a, agg() + col("x")),
        lambda a: summed(a, agg() + col("y")),
    ),
    "store": (lambda a: table(a, store="s"), lambda a: table(a, store="t")),
    "history": (lambda a: table(a, store="s"), lambda a: table(a, store=Materialized("s", history="1h"))),
    "changelog": (lambda a: table(a, store="s"), lambda a: table(a, store=Materialized("s", logging=False))),
    "a table is now kept": (table, lambda a: table(a, store="t-table-store")),
    "window size": (lambda a: counted(a, tumbling("1m")), lambda a: counted(a, tumbling("2m"))),
    "window advance": (lambda a: counted(a, tumbling("1m")), lambda a: counted(a, hopping("1m", "30s"))),
    "window grace": (lambda a: counted(a, tumbling("1m")), lambda a: counted(a, tumbling("1m", grace="1s"))),
    "window idle": (lambda a: counted(a, tumbling("1m")), lambda a: counted(a, tumbling("1m", idle="1s"))),
    "window kind": (lambda a: counted(a, tumbling("1m")), lambda a: counted(a, sliding("1m"))),
    "session gap": (lambda a: counted(a, session("1m")), lambda a: counted(a, session("2m"))),
    "unlimited start": (lambda a: counted(a, unlimited()), lambda a: counted(a, unlimited(1))),
    "emit": (lambda a: counted(a, tumbling("1m")), lambda a: counted(a, tumbling("1m"), emit="close")),
    "join window": (lambda a: joined(a, join_window("1s")), lambda a: joined(a, join_window("2s"))),
    "sides of a join window": (
        lambda a: joined(a, join_window("1s")),
        lambda a: joined(a, join_window(before="2s", after="0s")),
    ),
    "kind of join": (lambda a: joined(a, join_window("1s")), lambda a: joined(a, join_window("1s"), "left_join")),
    "joiner": (
        lambda a: a.stream("a").join(table(a), left("x") + right("x")),
        lambda a: a.stream("a").join(table(a), left("x") + right("y")),
    ),
    "suppress": (
        lambda a: suppressed(a, until_window_closes()),
        lambda a: suppressed(a, until_window_closes(max_records=9)),
    ),
    "suppress until": (
        lambda a: suppressed(a, until_time_limit("1m", max_records=9, when_full="shut_down")),
        lambda a: suppressed(a, until_window_closes(max_records=9)),
    ),
    "stores of a processor": (
        processed,
        lambda a: processed(a, "s"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_state_depends_on_changes_the_fingerprint(change: str) -> None:
    before, after = CHANGES[change]
    assert of(before) == of(before)
    assert of(after) == of(after)
    assert of(before) != of(after)


def test_a_store_that_is_not_materialized_does_not_matter() -> None:
    """A table that nothing looks up has no rows, so another serde for them changes only the source."""

    def stores(build: Callable[[App], object]) -> list[str]:
        app = App("app")
        build(app)
        return list(to_dict(app.plan())["stores"])

    assert stores(lambda a: table(a).to_stream()) == []
    assert stores(lambda a: table(a).filter(bool).to_stream()) == []
    assert stores(lambda a: a.stream("s").join(table(a), lambda s, _t: s)) == ["t-table-store"]
    assert stores(lambda a: a.add_store("s")) == []
    assert stores(lambda a: suppressed(a, until_window_closes())) == ["n", "n-suppress-store"]


def test_a_plan_as_data_is_json() -> None:
    app = App("app")
    orders(app)
    data = to_dict(app.plan())
    assert json.loads(json.dumps(data)) == data
    assert data["application_id"] == "app"
    assert data["operators"]["orders-aggregate"] == {
        "kind": "aggregate",
        "parents": ["orders-filter"],
        "options": {"aggregation": {"kind": "aggregate", "init": {"callable": True}, "add": {"callable": True}}},
    }
    assert data["stores"]["sums"] == {
        "operator": "orders-aggregate",
        "kind": "key-value",
        "key": "string",
        "value": "json",
        "timestamped": True,
    }


def test_references_are_names() -> None:
    app = App("app")
    shops = app.global_table("shops")
    a = app.stream("a")
    cogroup = a.group_by_key().cogroup(lambda _v, total: total)
    cogroup = cogroup.cogroup(app.stream("b").group_by_key(), lambda _v, total: total)
    cogroup.aggregate(dict, value=dict, store="both")
    a.join(shops, lambda x, _y: x).join(table(app), lambda x, _y: x, name="j").merge(a, name="m").to(value())
    operators = to_dict(app.plan())["operators"]
    assert operators["a-shops-global-table-join"]["options"]["table"] == "shops-global-table"
    assert operators["j"]["options"]["table"] == "t-table"
    assert operators["a-b-cogroup-part-2"]["options"]["shared"] == "a-b-cogroup-part-1"
    assert operators["m"] == {"kind": "merge", "parents": ["j", "a-source"], "options": {}}
    assert operators["m-sink"]["options"]["topic"] == {"root": "value"}


def test_a_supplier_may_be_a_dataclass() -> None:
    @dataclass
    class Configured(Processor[Any, Any, Any, Any]):
        size: int = 1

        def process(self, record: Record[Any, Any]) -> None:
            pass

    assert of(lambda a: a.stream("a").process(Configured)) == of(lambda a: a.stream("a").process(Silent))


def test_the_plans_of_all_vectors_are_json() -> None:
    for vector in load():
        if vector.get("error", {}).get("step") == "build":
            continue
        plan = VectorTopology(vector).build()[0].plan()
        assert fingerprint(plan) == fingerprint(VectorTopology(vector).build()[0].plan())
        assert json.loads(json.dumps(to_dict(plan))) == to_dict(plan)


def node_classes(base: type[Node] = Node) -> list[type[Node]]:
    classes = [cls for child in base.__subclasses__() for cls in (child, *node_classes(child))]
    return [cls for cls in classes if cls.__module__.startswith("millstream.")]


def becomes_plain_data(hint: Any) -> bool:
    """Whether `to_dict` converts values of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType, tuple}:
        return all(becomes_plain_data(argument) for argument in arguments if argument is not ...)
    if origin in {typing.Literal, Callable}:
        return True
    plain = (str, int, type(None), Frozen, Serde, Function)
    return issubclass(origin or hint, plain)


@pytest.mark.parametrize("cls", node_classes(), ids=lambda cls: cls.__name__)
def test_every_option_of_every_operator_becomes_plain_data(cls: type[Node]) -> None:
    hints = {name: hint for name, hint in typing.get_type_hints(cls).items() if typing.get_origin(hint) is not ClassVar}
    assert {"name", "at"} <= hints.keys()
    assert [name for name, hint in hints.items() if not becomes_plain_data(hint)] == []
