"""The rules of the optimizer: each changes the plan, and no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, TestDriver, join_window
from millstream.optimize import RULES, optimize
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Plan
from millstream.plan.sources import ToTable
from millstream.plan.stateless import Repartition

RECORDS = [("a", "x 1", 0), ("b", "y 1", 3), ("a", "x 2", 5), (None, "z", 6), ("c", "x 1", 4), ("b", None, 9)]


def first(value: str | None) -> str | None:
    return None if value is None else value.split()[0]


def two_groupings(app: App) -> None:
    keyed = app.stream("in", key=str, value=str).select_key(first, key=str)
    keyed.group_by_key().count(store="all").to_stream().to("counts")
    keyed.filter(lambda v: v is not None and "1" in v).group_by_key().count(store="ones").to_stream().to("ones-out")


def a_filter_that_others_read(app: App) -> None:
    keyed = app.stream("in", key=str, value=str).select_key(first, key=str)
    ones = keyed.filter(lambda v: v is not None and "1" in v, name="ones")
    ones.to("straight")
    ones.group_by_key().count(store="n").to_stream().to("counts")
    keyed.group_by_key().reduce(lambda a, v: f"{a}+{v}", store="r").to_stream().to("reduced")


def a_changed_value(app: App) -> None:
    keyed = app.stream("in", key=str, value=str).select_key(first, key=str).map_values(lambda v: v, value=str)
    keyed.group_by_key().count(store="one").to_stream().to("one-out")
    keyed.group_by_key().count(store="two").to_stream().to("two-out")


def self_join(app: App) -> None:
    stream = app.stream("in", key=str, value=str)
    stream.join(stream, lambda a, b: f"{a}-{b}", join_window(10, grace=10), value=str).to("pairs")


def table(app: App) -> None:
    app.table("in", key=str, value=str, store="rows").to_stream().to("out")


TOPOLOGIES: list[Callable[[App], None]] = [two_groupings, a_filter_that_others_read, a_changed_value, self_join, table]


def plan_of(topology: Callable[[App], None], *rules: str) -> Plan:
    app = App("rules")
    topology(app)
    return optimize(app.plan(), rules)


def repartitions(plan: Plan) -> list[str]:
    return [node.topic for node in plan.of_type(Repartition)]


def children(plan: Plan, name: str) -> list[str]:
    return [node.name for node in plan.nodes if name in [parent.name for parent in node.parents]]


def test_repartitions_below_one_change_of_key_are_merged_directly_below_it() -> None:
    assert repartitions(plan_of(two_groupings)) == ["all", "ones"]
    plan = plan_of(two_groupings, "merge.repartition.topics")
    assert repartitions(plan) == ["all"]
    (merged,) = plan.of_type(Repartition)
    assert merged.parent.name == "in-select-key"
    assert children(plan, merged.name) == ["in-count", "in-filter"]


def test_an_operator_with_other_readers_also_stays_before_the_repartition() -> None:
    plan = plan_of(a_filter_that_others_read, "merge.repartition.topics")
    assert repartitions(plan) == ["n"]
    assert children(plan, "ones") == ["straight-sink"]
    assert children(plan, "ones-repartitioned") == ["in-count"]


def test_repartitions_behind_a_change_of_value_are_not_merged() -> None:
    assert repartitions(plan_of(a_changed_value, "merge.repartition.topics")) == ["one", "two"]


def test_a_stream_joined_with_itself_is_stored_once() -> None:
    (plain,) = plan_of(self_join).of_type(StreamStreamJoin)
    (shared,) = plan_of(self_join, "single.store.self.join").of_type(StreamStreamJoin)
    assert (len(plain.stores), len(shared.stores)) == (2, 1)


def test_the_source_topic_of_a_table_serves_as_its_changelog() -> None:
    (plain,) = plan_of(table).of_type(ToTable)
    (reused,) = plan_of(table, "reuse.ktable.source.topics").of_type(ToTable)
    assert (plain.store.logged, reused.store.logged, reused.reuse_source) == (True, False, True)


def test_a_plan_is_never_changed_in_place() -> None:
    app = App("rules")
    two_groupings(app)
    plan = app.plan()
    before = list(plan.nodes)
    optimize(plan, RULES)
    assert list(plan.nodes) == before


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("rule", [*RULES, "all"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_rule_changes_no_result(topology: Callable[[App], None], rule: str, partitions: int) -> None:
    def run(optimization: str) -> dict[str, dict[Any, list[Any]]]:
        app = App("rules", topology_optimization=optimization)
        topology(app)
        records: dict[str, dict[Any, list[Any]]] = {}
        with TestDriver(app, partitions=partitions) as driver:
            for key, value, time in RECORDS:
                driver.input("in").pipe(key, value, timestamp=time)
            for topic in driver.produced_topics:
                if not topic.endswith("-repartition"):
                    for record in driver.output(topic).read_all():
                        records.setdefault(topic, {}).setdefault(record.key, []).append(record)
        return records

    assert run(rule) == run("none")
