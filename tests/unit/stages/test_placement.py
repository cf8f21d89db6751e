"""Placement: sub-topologies without state run where topics are read, if the execution has a shuffle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream import App, tumbling
from millstream.stages import Topology
from millstream.stages.placement import Placement, needs_tasks, place


def placed(build: Callable[[App], object], *, shuffle: bool = True) -> Placement:
    return place(topology_of(build), shuffle=shuffle)


def topology_of(build: Callable[[App], object]) -> Topology:
    app = App("shop")
    build(app)
    return app.topology()


def names(topologies: tuple[Topology, ...]) -> list[list[str]]:
    return [[node.name for node in topology.plan.nodes] for topology in topologies]


def route(app: App) -> None:
    app.stream("orders", key=str, value=str).filter(bool).to("large")


def count(app: App) -> None:
    app.stream("orders", key=str, value=str).group_by(str, key=str).count(store="counts").to_stream().to("totals")


def regroup(app: App) -> None:
    counts = app.stream("orders", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().select_key(str, key=str).group_by_key().count(store="second")


def two_topics(app: App) -> None:
    app.stream("orders", "refunds", key=str, value=str).filter(bool).to("all")


def two_topics_grouped(app: App) -> None:
    app.stream("orders", "refunds", key=str, value=str).group_by(str, key=str).count(store="counts")


def a_pattern(app: App) -> None:
    app.stream(pattern="orders-.*", key=str, value=str).to("all")


def a_global_table(app: App) -> None:
    app.global_table("prices", key=str, value=str, store="prices")
    route(app)


def a_global_join(app: App) -> None:
    prices = app.global_table("prices", key=str, value=str, store="prices")
    app.stream("orders", key=str, value=str).join(prices, str.__add__, on=str, value=str).to("priced")


def late_records(app: App) -> None:
    windows = app.stream("orders", key=str, value=str).group_by_key().windowed_by(tumbling("1m"))
    windows.count(store="counts").late().to("late")


def test_with_a_shuffle_a_stateless_sub_topology_runs_where_its_topic_is_read() -> None:
    placement = placed(route)
    assert names(placement.readers) == [["orders-source", "orders-filter", "large-sink"]]
    assert placement.tasks == ()


def test_with_a_shuffle_the_first_exchange_needs_no_topic() -> None:
    placement = placed(count)
    assert [node.topic for node in placement.direct] == ["counts"]
    assert len(placement.readers) == len(placement.tasks) == 1


def test_with_a_shuffle_an_exchange_behind_state_needs_a_topic() -> None:
    placement = placed(regroup)
    assert placement.direct == frozenset()
    assert (len(placement.readers), len(placement.tasks)) == (0, 2)


@pytest.mark.parametrize("build", [route, count, regroup, two_topics, a_pattern, a_global_join, late_records])
def test_without_a_shuffle_every_sub_topology_is_a_task_and_every_exchange_a_topic(
    build: Callable[[App], object],
) -> None:
    topology, placement = topology_of(build), placed(build, shuffle=False)
    assert placement.readers == ()
    assert placement.direct == frozenset()
    assert [task.parts[0].index for task in placement.tasks] == [part.index for part in topology.parts]


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_task_has_the_global_tables_that_it_looks_up(shuffle: bool) -> None:
    placement = placed(a_global_join, shuffle=shuffle)
    assert [len(task.global_tables) for task in placement.tasks] == [1]


def test_a_global_table_that_no_operator_looks_up_is_a_task_without_sub_topologies() -> None:
    placement = placed(a_global_table)
    assert [task.parts for task in placement.tasks] == [()]
    assert [len(task.parts) for task in placed(a_global_table, shuffle=False).tasks] == [1, 0]


@pytest.mark.parametrize("build", [two_topics, a_pattern])
def test_only_a_task_writes_records_of_several_topics_in_order(build: Callable[[App], object]) -> None:
    node = needs_tasks(topology_of(build))
    assert node is not None
    assert node.name == "all-sink"


def test_records_of_several_topics_can_be_exchanged_where_they_are_read() -> None:
    assert [len(reader.parts) for reader in placed(two_topics_grouped).readers] == [1]


def test_a_timestamp_that_depends_on_earlier_records_needs_a_task() -> None:
    def extracted(app: App) -> None:
        app.stream("orders", key=str, value=str, on_invalid_timestamp="partition_time").to("all")

    node = needs_tasks(topology_of(extracted))
    assert node is not None
    assert node.name == "orders-source"
