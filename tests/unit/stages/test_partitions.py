"""The numbers of partitions of topics, and of tasks of sub-topologies."""

from __future__ import annotations

import pytest

from millstream import App, TopologyError, join_window


def two_exchanges() -> App:
    app = App("shop")
    orders = app.stream("orders", key=str, value=str).repartition(name="wide", partitions=8)
    orders.group_by_key().count(store="counts").to_stream().select_key(str, key=str).group_by_key().count(
        store="second"
    )
    return app


def test_sub_topologies_may_have_different_numbers_of_tasks() -> None:
    topology = two_exchanges().topology()
    partitions = topology.partitions({"orders": 3})
    assert partitions == {"orders": 3, "shop-wide-repartition": 8, "shop-second-repartition": 8}
    assert topology.task_counts(partitions) == {0: 3, 1: 8, 2: 8}


def test_a_repartition_topic_has_as_many_partitions_as_the_input_that_it_is_joined_with() -> None:
    app = App("shop")
    orders = app.stream("orders", key=str, value=str).select_key(str, key=str)
    orders.join(app.stream("payments", key=str, value=str), str.__add__, join_window("1m"), value=str).to("paid")
    topology = app.topology()
    partitions = topology.partitions({"orders": 2, "payments": 5})
    assert set(partitions.values()) == {2, 5}
    assert sorted(topology.task_counts(partitions).values()) == [2, 5]


def test_a_sub_topology_has_as_many_tasks_as_its_largest_input_has_partitions() -> None:
    app = App("shop")
    app.stream("orders", "refunds", key=str, value=str).to("all")
    topology = app.topology()
    assert topology.task_counts(topology.partitions({"orders": 2, "refunds": 4})) == {0: 4}


def test_topics_that_match_a_pattern_count() -> None:
    app = App("shop")
    app.stream(pattern=".*orders", key=str, value=str).group_by(str, key=str).count(store="orders")
    topology = app.topology()
    partitions = topology.partitions({"old-orders": 6, "payments": 9})
    assert partitions["shop-orders-repartition"] == 6
    assert topology.task_counts(partitions) == {0: 6, 1: 6}


def test_inputs_of_one_sub_topology_with_different_numbers_of_partitions_are_refused() -> None:
    app = App("shop")
    orders = app.stream("orders", key=str, value=str).repartition(name="wide", partitions=8)
    orders.join(app.stream("payments", key=str, value=str), str.__add__, join_window("1m"), value=str).to("paid")
    with pytest.raises(TopologyError, match=r"must have the same number of partitions: .*wide-repartition has 8"):
        app.topology().partitions({"orders": 3, "payments": 3})
