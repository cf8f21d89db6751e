"""Order positions, the header of origins, the graph of exchanges, and the limits of batches."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from millstream import App, join_window
from millstream.core.durations import END_OF_TIME
from millstream.log import open_log
from millstream.log.blocks import decode_headers, encode_headers
from millstream.log.opening import open_location
from millstream.runtime.batches.limits import LimitPlanner, Unread
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.order.origin_header import ORIGIN, attach, detach
from millstream.runtime.order.positions import (
    LEAST,
    Position,
    ascending,
    from_arrow,
    ordinal,
    position,
    positions,
    time_of,
    to_arrow,
)
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import InputRouting
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.stages.exchange_graph import ExchangeGraph, exchange_graph
from millstream.stages.placement import place

# ----- positions -------------------------------------------------------------------------------------------------


def test_positions_sort_as_their_parts_do() -> None:
    rng = random.Random(1)
    times = [-(2**63), -1, 0, 1, 255, 256, 65_536, END_OF_TIME]
    parts = [
        (rng.choice(times), ordinal(rng.randrange(3), rng.choice([0, 1, 255, 65_535])), rng.randrange(70_000))
        for _ in range(500)
    ]
    assert sorted(parts) == sorted(parts, key=lambda part: position(*part))
    assert all(time_of(position(*part)) == part[0] for part in parts)
    assert all(position(*part) >= LEAST for part in parts)
    column = np.array([position(*part) for part in parts])
    assert column[np.argsort(column, kind="stable")].tolist() == sorted(column.tolist())


def test_a_column_of_positions_survives_arrow_and_slices() -> None:
    column = positions(np.array([1, 2, 3]), 7, np.array([0, 256, 65_536]))
    assert column.tolist() == [position(1, 7, 0), position(2, 7, 256), position(3, 7, 65_536)]
    assert from_arrow(to_arrow(column).slice(1)).tolist() == column[1:].tolist()
    assert from_arrow(to_arrow(column[::-1])).tolist() == column[::-1].tolist()


def test_positions_never_go_back_within_a_partition() -> None:
    column = np.array([b"b", b"d", b"c", b"e"])
    assert ascending(column, None).tolist() == [b"b", b"d", b"d", b"e"]
    assert ascending(column, b"d").tolist() == [b"d", b"d", b"d", b"e"]
    assert ascending(column[:0], b"d").tolist() == []


# ----- the header ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [[(), (), ()], [(("a", b"1"),), (), (("a", None), (ORIGIN, b"of the user"))]],
    ids=["no other headers", "other headers"],
)
def test_the_header_of_origins_is_removed_without_a_trace(headers: list[tuple[tuple[str, bytes | None], ...]]) -> None:
    origins = positions(np.array([1, 2, 3]), 7, np.array([0, 256, 5]))
    encoded = pa.array([encode_headers(pairs) for pairs in headers], pa.binary())
    for column in (attach(encoded, origins), pa.concat_arrays([encoded, attach(encoded, origins)]).slice(3)):
        others, detached = detach(column)
        assert detached.tolist() == origins.tolist()
        assert [decode_headers(data) for data in others.to_pylist()] == headers


def test_records_without_the_header_have_the_least_position() -> None:
    column = pa.array([None, encode_headers((("a", b"1"),)), b"\xff"], pa.binary())
    others, origins = detach(column)
    assert origins.tolist() == [LEAST] * 3
    assert others.to_pylist() == column.to_pylist()


# ----- the graph of exchanges ------------------------------------------------------------------------------------


def chain() -> App:
    """Two exchanges with topics, one after the other, and a direct input beside the second."""
    app = App("chain", config={"status": "none"})
    first = app.stream("a", value=str).group_by_key().count().to_stream()
    second = first.select_key(lambda key, _value: key[:1], key=str).group_by_key().count().to_stream()
    third = second.select_key(lambda key, _value: key[:1], key=str)
    app.stream("b", value=str).join(third, lambda left, _right: left, join_window(5)).to("out")
    return app


def foreign_key() -> App:
    app = App("foreign", config={"status": "none"})
    orders, customers = app.table("orders", value=str), app.table("customers", value=str)
    joined = orders.join(customers, lambda order, _customer: order, on=lambda order: order)
    joined.to_stream().group_by(lambda order: order, key=str).count().to_stream().to("out")
    return app


def graph_of(app: App) -> ExchangeGraph:
    return exchange_graph(place(app.topology()))


def test_each_exchange_with_a_topic_adds_one_to_the_depth() -> None:
    graph = graph_of(chain())
    assert list(graph.depths.values()) == [0, 1, 2]
    assert graph.depth == 2
    assert sorted(graph.delays.values()) == [1, 2]
    assert [graph.upstream(component) for component in graph.components.values()] == [[], [0], [1]]
    assert not any(graph.is_inside(topic) for topic in graph.writers)


def test_a_foreign_key_join_is_one_component() -> None:
    graph = graph_of(foreign_key())
    inside = [topic for topic in graph.writers if graph.is_inside(topic)]
    assert len(inside) == 2  # subscriptions and responses
    assert sorted(graph.levels.values()) == [1, 2]
    assert [graph.last_level(component) for component in dict.fromkeys(graph.components.values())] == [2, 0]
    (behind,) = [index for index, depth in graph.depths.items() if depth]
    assert graph.depths[behind] == 3  # both topics of the join, and the repartition
    assert len(set(graph.components.values())) == 2


# ----- limits ----------------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Program:
    app = App("chain", config={"status": "none", "state.dir": str(tmp_path)})
    with open_log(tmp_path) as log:
        for topic in ("a", "b", "apart"):
            log.create_topic(topic, 1)
    first = app.stream("a", value=str).group_by_key().count().to_stream()
    second = first.select_key(lambda key, _value: key[:1], key=str)
    app.stream("b", value=str).join(second, lambda left, _right: left, join_window(5)).to("out")
    app.stream("apart", value=str).group_by_key().count().to_stream().to("counts")
    with_topics = PreparedApplication(app.topology(), app.config)
    with_topics.close()
    return with_topics.program


def at(time: int) -> Position:
    return position(time, 0, 0)


def planned(
    program: Program,
    before: BatchOrder,
    ends: dict[str, list[int]],
    chosen: dict[str, list[int]],
    bounds: dict[tuple[str, int], Position] | None = None,
    held: dict[int, Position] | None = None,
) -> BatchOrder:
    planner = LimitPlanner(program, InputRouting(program))
    starts = {topic: [0] * len(row) for topic, row in ends.items()}
    with open_location(program.log) as log:
        groups = Subscription(program, log).groups
    return planner.next(before, Unread(starts, chosen, ends, {}), bounds or {}, held or {}, groups)


def test_a_sub_topology_waits_for_unread_records_upstream(program: Program) -> None:
    order = planned(program, BatchOrder(4), {"a": [3], "b": [3]}, {"a": [2], "b": [3]}, {("a", 0): at(7)})
    assert order.sequence == 5
    assert (order.limit(0), order.limit(1)) == (None, at(7))
    assert planned(program, BatchOrder(4), {"a": [3], "b": [3]}, {"a": [2], "b": [3]}).limit(1) == LEAST


def test_a_sub_topology_waits_for_records_that_its_upstream_holds(program: Program) -> None:
    order = planned(program, BatchOrder(), {"a": [0], "b": [3]}, {"a": [0], "b": [3]}, held={0: at(9)})
    assert order.limit(1) == at(9)


def test_nothing_upstream_means_no_limit(program: Program) -> None:
    order = planned(program, BatchOrder(), {"a": [0], "b": [3]}, {"a": [0], "b": [3]}, {("a", 0): at(7)})
    assert order.limits == []


def test_a_batch_that_reads_everything_releases_its_records_one_batch_later_behind_an_exchange(
    program: Program,
) -> None:
    everything = {"a": [3], "b": [3]}
    first = planned(program, BatchOrder(1), everything, everything)
    assert first.released[:2] == [(0, [2]), (1, [2, -1])]
    second = planned(program, first, everything, {"a": [1], "b": [3]})
    assert second.released[:2] == [(0, [2]), (1, [2, 2])]
    internal = next(topic for topic in exchange_graph(program.placement).writers)
    unread = {**everything, internal: [5]}
    third = planned(program, second, unread, {"a": [3], "b": [3], internal: [4]})
    assert third.released[:2] == second.released[:2]
    assert third.released_to(1) == 2


def test_the_release_of_records_does_not_depend_on_topics_that_they_never_meet(program: Program) -> None:
    everything = {"a": [3], "b": [3], "apart": [3]}
    first = planned(program, BatchOrder(1), everything, {"a": [3], "b": [3], "apart": [1]})
    assert first.released == [(0, [2]), (1, [2, -1]), (2, [-1])]
    second = planned(program, first, everything, {"a": [1], "b": [3], "apart": [3]})
    assert second.released == [(0, [2]), (1, [2, 2]), (2, [3])]
