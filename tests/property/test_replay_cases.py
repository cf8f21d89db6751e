"""Cases of `test_replays` that showed a defect, made small."""

from __future__ import annotations

from tests.property.generation import Case, Input, Member, Segment
from tests.property.replaying import UNCUT, check


def case(*steps: tuple, records: list[tuple[str, str | None, str | None, int]], segments: tuple = UNCUT) -> Case:
    """Returns a case of one topology with one task, whose topics have one partition."""
    inputs = tuple(Input(topic, 0, key, value, timestamp) for topic, key, value, timestamp in records)
    topics = {topic for kind, topic, *_ in steps if kind in {"stream", "table"}}
    return Case((Member(steps, dict.fromkeys(sorted(topics), 1), inputs),), 1, segments)


def test_a_sub_topology_behind_a_cycle_comes_after_it() -> None:
    """The depth of a sub-topology was computed before that of the cycle upstream."""
    check(
        case(
            ("table", "in0"),
            ("stream", "in1"),
            ("process", 1, "ticker"),
            ("stream_join", 1, 2, "outer_join", 0, 0, 20),
            ("process", 3, "ticker"),
            ("stream_table", 4, 0, "left_join"),
            records=[("in1", "g1", "d1", 97)],
        )
    )


def test_records_that_tasks_hold_are_taken_after_a_restart_without_new_input() -> None:
    """No batch was planned, because nothing was unread."""
    batch = Segment((100,), False, None)
    check(
        case(
            ("table", "in0"),
            ("stream", "in1"),
            ("stream_table", 1, 0, "left_join"),
            ("repartition", 2),
            ("regroup", 0, 5),
            ("aggregate", 3, "sum"),
            ("stream_table", 2, 5, "join"),
            records=[("in0", "g0", "h5", 100), ("in1", "k3", "d5", 0)],
            segments=(batch, batch),
        )
    )


def test_an_inner_foreign_key_join_has_no_stale_row_if_a_left_row_changes_before_its_answer() -> None:
    """The null answer to the first change was dropped, and the second change did not ask for an answer."""
    right = [("g0", "g8"), ("k1", "h3"), ("k2", None), ("k0", None), ("g1", "c3"), ("k2", None), ("g0", "c0")]
    left = [("k0", "e8"), ("k1", "h9"), ("k0", "g7"), ("g1", "h1"), (None, "g0"), ("k0", "d6")]
    for size in (1, 4):
        check(
            case(
                ("table", "in0"),
                ("stream", "in1"),
                ("select_key", 1, 2, False),
                ("to_table", 2),
                ("foreign_key", 3, 0, "join", 3),
                records=[*(("in0", *row, 0) for row in right), *(("in1", *row, 0) for row in left)],
                segments=(Segment((size,), False, None),),
            )
        )


def test_a_cycle_keeps_the_order_of_the_topics_inside_it() -> None:
    """The merge makes a cycle of the exchange. A task took its records beyond those that another had not read yet."""
    inputs = (
        Input("in0", 1, "g0", "h4", 1),
        Input("in0", 1, "g0", "b5", 2),
        Input("in0", 0, "k5", "e1", 4),
        Input("in0", 2, "g1", "h8", 6),
        Input("in0", 0, "k3", "d9", 9),
    )
    steps = (
        ("stream", "in0"),
        ("process", 0, "chain"),
        ("select_key", 1, 2, False),
        ("process", 2, "chain"),
        ("select_key", 3, 3, False),
        ("to_table", 4),
        ("merge", 4, 2),
    )
    check(Case((Member(steps, {"in0": 4}, inputs),), 2, (Segment((1,), False, None),)))
