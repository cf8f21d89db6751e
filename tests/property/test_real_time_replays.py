"""In real-time mode, results do not depend on how many records workers read at once, on their number, or on restarts.

The topologies, the records and the comparison are those of `test_replays`; the other run is one of micro-batches. Each
topic has as many partitions as there are tasks. All records are in the log before the start. Workers read a few of them
at once, and stop or crash at failpoints in between.

By default 24 applications run, with 2 topologies each. To run more, set the environment variable
``MILLSTREAM_REAL_TIME_REPLAYS`` to their number, and ``MILLSTREAM_REPLAYS_FROM`` to the first seed.
"""

from __future__ import annotations

import os

import pytest
from tests.property.generation import Case, Input, Member, generate
from tests.property.real_time import Start, check_real_time, copartitioned, starts
from tests.property.replaying import UNCUT

CASES = int(os.environ.get("MILLSTREAM_REAL_TIME_REPLAYS", "24"))
FIRST = int(os.environ.get("MILLSTREAM_REPLAYS_FROM", "0"))
PARTS = 8
"""Parts of the cases, which can run in parallel."""

TASKS = (1, 2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(300 + 6 * CASES)
def test_results_do_not_depend_on_workers_and_restarts(part: int) -> None:
    for seed in range(FIRST + part, FIRST + CASES, PARTS):
        case = copartitioned(generate(seed, members=2), TASKS[seed % len(TASKS)])
        runs = starts(seed)
        try:
            check_real_time(case, runs)
        except Exception as error:
            error.add_note(f"seed {seed}: check_real_time({case!r}, {runs!r})")
            raise


@pytest.mark.parametrize("workers", [1, 2])
def test_a_topic_inside_a_cycle_keeps_its_order(workers: int) -> None:
    """The merge makes a cycle of the exchange. A task took its records as they came."""
    records = [("in1", 1, "g0", "h7", 104), ("in1", 0, "k5", "g0", 127)]
    member = Member(
        (("stream", "in1"), ("select_key", 0, 3, False), ("process", 1, "chain"), ("merge", 2, 0)),
        {"in1": 2},
        tuple(Input(*record) for record in records),
    )
    check_real_time(Case((member,), 2, UNCUT), (Start(workers, 1000, 50_000),))


@pytest.mark.parametrize("start", [Start(2, 1, 50_000), Start(3, 3, 50_000), Start(2, 1000, 50_000)])
def test_a_topic_behind_another_one_inside_a_cycle_keeps_its_order(start: Start) -> None:
    """A task took records of the second topic although earlier ones were still in the first topic."""
    records = [("in0", 1, "g0", "h1", 110), ("in0", 2, "g1", "a2", 125), ("in0", 1, "k0", "c5", 135)]
    member = Member(
        (
            ("stream", "in0"),
            ("stream", "in1"),
            ("process", 0, "chain"),
            ("process", 2, "chain"),
            ("select_key", 3, 3, False),
            ("to_table", 4),
            ("stream_table", 1, 5, "left_join"),
            ("merge", 2, 6),
        ),
        {"in0": 4, "in1": 4},
        tuple(Input(*record) for record in records),
    )
    check_real_time(Case((member,), 4, UNCUT), (start,))
