"""Names of operators, stores and internal topics: stable, unique, and explicit if so configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, Materialized, Stream, TopologyError, join_window, tumbling
from millstream.plan.stateless import Repartition


def stateful(change: Callable[[App, Stream[Any, Any]], Any] = lambda app, stream: None) -> set[str]:
    """Returns the names of stores and repartition topics of an application, after ``change`` has added operators."""
    app = App("names")
    orders = app.stream("orders", value=str)
    change(app, orders)
    orders.group_by(lambda v: v, key=str).count().to_stream().to("counts")
    orders.group_by_key().windowed_by(tumbling(5)).count()
    orders.join(app.stream("payments", value=str), lambda a, b: a, join_window(5)).to("paid")
    users = app.table("users", value=str)
    users.join(app.table("towns", value=str), lambda a, b: a, on=lambda v: v).to_stream().to("out")
    orders.select_key(lambda v: v, key=str).left_join(users, lambda a, b: a).to("named")
    plan = app.plan()
    stores = {spec.name for node in plan.nodes for spec in node.stores}
    return stores | {node.topic for node in plan.nodes if isinstance(node, Repartition)}


ADDITIONS: dict[str, Callable[[App, Stream[Any, Any]], Any]] = {
    "a stateless operator elsewhere": lambda app, s: app.stream("else").map_values(str).filter(bool).to("else-out"),
    "a stateless operator on the same stream": lambda app, s: s.filter(bool).to("filtered"),
    "an aggregation elsewhere": lambda app, s: app.stream("else").group_by(str, key=str).count(),
    "a table elsewhere": lambda app, s: app.table("else").to_stream().to("else-out"),
    "a join elsewhere": lambda app, s: (
        app.stream("else").join(app.stream("else2"), lambda a, b: a, join_window(5)).to("else-out")
    ),
    "a named aggregation on the same stream": lambda app, s: s.group_by(str, key=str, name="g").count(store="new"),
}


@pytest.mark.parametrize("addition", ADDITIONS)
def test_adding_an_operator_renames_nothing_that_has_state(addition: str) -> None:
    assert stateful() <= stateful(ADDITIONS[addition])


def test_a_stateless_operator_in_between_renames_nothing_below() -> None:
    def names(change: Callable[[Stream[Any, Any]], Stream[Any, Any]]) -> set[str]:
        app = App("names")
        change(app.stream("orders", value=str)).group_by(lambda v: v, key=str).count()
        return {spec.name for node in app.plan().nodes for spec in node.stores}

    plain = names(lambda s: s)
    assert names(lambda s: s.filter(bool)) == plain
    assert names(lambda s: s.map_values(str.upper, value=str).peek(print)) == plain


def test_two_equal_operators_get_different_names() -> None:
    app = App("names")
    stream = app.stream("orders", value=str)
    for _ in range(2):
        stream.group_by_key().count()
        stream.group_by(lambda v: v, key=str).count()
    plan = app.plan()
    assert len({node.name for node in plan.nodes}) == len(plan.nodes)


DUPLICATES: dict[str, Callable[[App], Any]] = {
    "operators": lambda app: [app.stream("in").filter(bool, name="same") for _ in range(2)],
    "operators of different kinds": lambda app: app.stream("in").filter(bool, name="same").peek(print, name="same"),
    "sources": lambda app: [app.stream(topic, name="same") for topic in ("a", "b")],
    "tables": lambda app: [app.table(topic, name="same") for topic in ("a", "b")],
    "stores": lambda app: [app.stream("in").group_by_key().count(store="same") for _ in range(2)],
    "stores of different kinds": lambda app: (app.table("in", store="same"), app.table("b").filter(bool, store="same")),
    "store and global table": lambda app: (app.table("in", store="same"), app.global_table("b", store="same")),
    "repartitions": lambda app: [app.stream("in").repartition(name="same") for _ in range(2)],
    "groupings": lambda app: [app.stream("in").group_by(str, key=str, name="same").count() for _ in range(2)],
    "grouping and repartition": lambda app: (
        app.stream("in").repartition(name="same"),
        app.stream("in").group_by(str, key=str, name="same").count(),
    ),
    "joins": lambda app: [
        app.stream("in").join(app.stream("b"), lambda a, b: a, join_window(5), name="same") for _ in range(2)
    ],
}


@pytest.mark.parametrize("what", DUPLICATES)
def test_a_duplicate_name_is_refused_with_the_line_of_the_first(what: str) -> None:
    with pytest.raises(TopologyError, match=r"already an? .* named '.*same.*', made at test_operator_names.py:\d+"):
        DUPLICATES[what](App("names"))


def test_a_named_grouping_has_one_repartition_topic_for_all_its_aggregations() -> None:
    app = App("names")
    grouped = app.stream("in").group_by(str, key=str, name="words")
    grouped.count(store="one")
    grouped.windowed_by(tumbling(5)).count(store="two")
    assert [node.topic for node in app.plan().nodes if isinstance(node, Repartition)] == ["words"]


EXPLICIT: dict[str, tuple[Callable[[App], Any], Callable[[App], Any]]] = {
    "repartition": (
        lambda app: app.stream("in").repartition(),
        lambda app: app.stream("in").repartition(name="again"),
    ),
    "count": (
        lambda app: app.stream("in").group_by_key().count(),
        lambda app: app.stream("in").group_by_key().count(store="counts"),
    ),
    "windowed count": (
        lambda app: app.stream("in").group_by_key().windowed_by(tumbling(5)).count(),
        lambda app: app.stream("in").group_by_key().windowed_by(tumbling(5)).count(store="counts"),
    ),
    "grouping that repartitions": (
        lambda app: app.stream("in").group_by(str, key=str).count(),
        lambda app: app.stream("in").group_by(str, key=str).count(store="counts"),
    ),
    "join of streams": (
        lambda app: app.stream("in").join(app.stream("b"), lambda a, b: a, join_window(5)),
        lambda app: app.stream("in").join(app.stream("b"), lambda a, b: a, join_window(5), name="paid"),
    ),
    "to_table": (
        lambda app: app.stream("in").to_table().join(app.table("b", store="b"), lambda a, b: a, name="j"),
        lambda app: app.stream("in").to_table(store="a").join(app.table("b", store="b"), lambda a, b: a, name="j"),
    ),
    "foreign-key join": (
        lambda app: app.table("a", store="a").join(app.table("b", store="b"), lambda a, b: a, on=str),
        lambda app: app.table("a", store="a").join(
            app.table("b", store="b"), lambda a, b: a, on=str, name="fk", store=Materialized("joined")
        ),
    ),
}


@pytest.mark.parametrize("what", EXPLICIT)
def test_explicit_naming_refuses_state_that_the_user_did_not_name(what: str) -> None:
    def built(make: Callable[[App], Any], *, explicit: bool) -> None:
        make(app := App("names", ensure_explicit_internal_resource_naming=explicit))
        app.topology()

    nameless, named = EXPLICIT[what]
    with pytest.raises(TopologyError, match=r"ensure\.explicit\.internal\.resource\.naming"):
        built(nameless, explicit=True)
    built(named, explicit=True)
    built(nameless, explicit=False)
