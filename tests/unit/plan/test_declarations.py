"""Analyses read the declarations of nodes: they also work for operators that no module of Millstream names."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from millstream import App, Expr, col
from millstream.optimize import RULES, optimize
from millstream.plan.analysis import PlanFacts
from millstream.plan.builder import Builder
from millstream.plan.compare import compare
from millstream.plan.functions import Function
from millstream.plan.node import Node, Plan, Role, WhenMaterialized
from millstream.plan.sources import Source, ToTable
from millstream.plan.stateless import Repartition
from millstream.serde import STRING
from millstream.stages import cut
from millstream.stages.describe import describe
from millstream.stages.placement import place
from millstream.state.spec import StoreSpec


class Plain(Node, kw_only=True):
    """Declares nothing."""

    parent: Node


class Pure(Plain, kw_only=True):
    pure: ClassVar[bool] = True


class Keeping(Pure, kw_only=True):
    keeps_records: ClassVar[bool] = True


class Rekeying(Pure, kw_only=True):
    by: Function

    changes_key: ClassVar[bool] = True
    key_options: ClassVar[tuple[str, ...]] = ("by",)


class Ordered(Pure, kw_only=True):
    needs_order: ClassVar[bool] = True


class Hidden(Plain, kw_only=True):
    role: ClassVar[Role] = "hidden"


class LookingUp(Plain, kw_only=True):
    table: Node

    @property
    def looks_up(self) -> tuple[Node, ...]:
        return (self.table,)


class NeedingOldValues(Plain, kw_only=True):
    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        return (self.parent,)


class NeedingNullKeys(Plain, kw_only=True):
    @property
    def needs_null_keys(self) -> bool:
        return True


class Stored(Plain, kw_only=True):
    store: StoreSpec

    groups: ClassVar[bool] = True


class StoredIfUsed(Stored, kw_only=True):
    materialized: ClassVar[WhenMaterialized] = "if_used"


class FrontEnd:
    """Adds nodes to a plan, as the DSL does."""

    def __init__(self) -> None:
        self.builder = Builder("test", App("test").config)

    def add(self, kind: Any, parent: Node, **options: Any) -> Any:
        name = self.builder.name(None, kind.__name__.lower(), parent)
        return self.builder.add(kind(name=name, parent=parent, **options))

    def source(self, *topics: str) -> Source:
        name = self.builder.name(None, "source", base=topics[0])
        return self.builder.source(Source(name=name, topics=topics, key=STRING, value=STRING))

    def repartition(self, parent: Node, topic: str) -> Repartition:
        return self.builder.repartition(parent, topic, STRING, STRING, mergeable=True)

    def table(self, topic: str) -> ToTable:
        spec = StoreSpec(name=f"{topic}-store", kind="key-value", key=STRING, value=STRING)
        node: ToTable = self.add(ToTable, self.source(topic), store=spec)
        return node

    @property
    def plan(self) -> Plan:
        return self.builder.plan()


@pytest.fixture
def front_end() -> FrontEnd:
    return FrontEnd()


def test_a_node_that_declares_nothing_runs_in_a_task(front_end: FrontEnd) -> None:
    front_end.add(Plain, front_end.source("in"))
    assert len(place(cut(front_end.plan)).tasks) == 1


def test_a_pure_node_runs_where_its_topic_is_read(front_end: FrontEnd) -> None:
    front_end.add(Pure, front_end.source("in"))
    assert place(cut(front_end.plan)).tasks == ()


@pytest.mark.parametrize(("topics", "tasks"), [(("a",), 0), (("a", "b"), 1)])
def test_a_pure_node_that_needs_order_runs_in_a_task_if_it_reads_several_topics(
    front_end: FrontEnd, topics: tuple[str, ...], tasks: int
) -> None:
    front_end.add(Ordered, front_end.source(*topics))
    assert len(place(cut(front_end.plan)).tasks) == tasks


@pytest.mark.parametrize(("kind", "repartitions"), [(Keeping, 1), (Pure, 2)])
def test_repartitions_are_merged_above_a_node_that_keeps_records(
    front_end: FrontEnd, kind: type[Node], repartitions: int
) -> None:
    rekeyed = front_end.add(Rekeying, front_end.source("in"), by=front_end.builder.function(col("a"), ("value",), "by"))
    front_end.add(Plain, front_end.repartition(rekeyed, "one"))
    front_end.add(Plain, front_end.repartition(front_end.add(kind, rekeyed), "two"))
    assert len(list(optimize(front_end.plan, RULES).of_type(Repartition))) == repartitions


def test_a_table_that_a_node_looks_up_is_materialized_and_in_its_sub_topology(front_end: FrontEnd) -> None:
    table, stream = front_end.table("rows"), front_end.source("in")
    assert PlanFacts(front_end.plan).stores_of(table) == ()
    assert len(cut(front_end.plan).parts) == 2
    reader = front_end.add(LookingUp, stream, table=table)
    assert PlanFacts(front_end.plan).stores_of(table) == (table.store,)
    assert len(cut(front_end.plan).parts) == 1
    assert f"Processor: {reader.name} (stores: [rows-store])" in describe(cut(front_end.plan))


def test_a_table_sends_old_values_to_a_node_that_needs_them(front_end: FrontEnd) -> None:
    table = front_end.table("rows")
    assert table not in PlanFacts(front_end.plan).sends_old
    front_end.add(NeedingOldValues, table)
    facts = PlanFacts(front_end.plan)
    assert table in facts.sends_old
    assert facts.stores_of(table) == (table.store,)


def test_repartitions_above_a_node_that_needs_null_keys_pass_them(front_end: FrontEnd) -> None:
    above = front_end.repartition(front_end.source("in"), "above")
    beside = front_end.repartition(above, "beside")
    front_end.add(NeedingNullKeys, above)
    assert {above, beside} & PlanFacts(front_end.plan).null_keys == {above}


def test_a_store_that_exists_only_if_it_is_used(front_end: FrontEnd) -> None:
    spec = StoreSpec(name="s", kind="key-value", key=STRING, value=STRING, named=True)
    node = front_end.add(StoredIfUsed, front_end.source("in"), store=spec)
    assert PlanFacts(front_end.plan).stores_of(node) == ()


def test_a_hidden_node_is_not_described(front_end: FrontEnd) -> None:
    node = front_end.add(Hidden, front_end.source("in"))
    assert f"Processor: {node.name}" not in describe(cut(front_end.plan))


def test_a_changed_key_option_changes_the_meaning_of_the_rows_below() -> None:
    def grouped(key: Expr) -> Plan:
        front_end = FrontEnd()
        function = front_end.builder.function(key, ("value",), "by")
        rekeyed = front_end.add(Rekeying, front_end.source("in"), by=function)
        spec = StoreSpec(name="s", kind="key-value", key=STRING, value=STRING, named=True)
        front_end.add(Stored, front_end.repartition(front_end.add(Keeping, rekeyed), "r"), store=spec)
        return front_end.plan

    [store] = compare(grouped(col("a")), grouped(col("b"))).stores
    assert store.reasons == ("its rows were grouped by `a`, and now by `b`",)
    assert compare(grouped(col("a")), grouped(col("a"))).names("kept") == ["s"]
