"""The coordinator keeps to the order of records, whatever the order of reports, and when workers start again."""

from __future__ import annotations

from millstream.runtime.order.positions import LEAST, Position, position
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.messages import Report, Sent, TaskReport
from millstream.stages.exchange_graph import ExchangeGraph
from millstream.stages.task_id import TaskId

TOPIC = "exchange"
ABOVE, BELOW, LAST = TaskId(0, 0), TaskId(1, 0), TaskId(2, 0)


def at(time: int) -> Position:
    return position(time, 0, 0)


def made() -> Coordinator:
    """Three sub-topologies in a row, each with a worker of its own; all have read everything."""
    graph = ExchangeGraph(
        writers={TOPIC: 0, "last": 1},
        readers={TOPIC: 1, "last": 2},
        components={0: 0, 1: 1, 2: 2},
        depths={0: 0, 1: 1, 2: 2},
        delays={TOPIC: 1, "last": 2},
    )
    coordinator = Coordinator(graph, {0: [ABOVE], 1: [BELOW], 2: [LAST]}, {(TOPIC, 0): 0, ("last", 0): 0}, exact=True)
    for worker in range(3):
        coordinator.begin(worker, 1, {})
    coordinator.report(Report(0, tasks=[TaskReport(ABOVE, None, is_done=True)]))
    coordinator.report(Report(1, tasks=[TaskReport(BELOW, None, [(TOPIC, 0, 0)], is_done=True)]))
    coordinator.report(Report(2, tasks=[TaskReport(LAST, None, [("last", 0, 0)], is_done=True)]))
    return coordinator


def limit(coordinator: Coordinator, subtopology: int) -> Position | None:
    return next(each.limit for each in coordinator.orders(0).limits if each.subtopology == subtopology)


def test_without_records_there_is_no_limit() -> None:
    coordinator = made()
    assert limit(coordinator, 1) is None
    assert limit(coordinator, 2) is None
    assert coordinator.is_caught_up()


def test_records_on_their_way_limit_the_tasks_behind_their_reader() -> None:
    coordinator = made()
    coordinator.report(Report(0, tasks=[TaskReport(ABOVE, None, is_done=True)], sent=[Sent(TOPIC, 0, 5, at(7))]))
    assert limit(coordinator, 1) is None  # for a task that has read up to the end that the orders contain
    assert coordinator.orders(1).ends == [(TOPIC, 0, 5), ("last", 0, 0)]
    assert limit(coordinator, 2) == at(7)
    assert not coordinator.is_caught_up()
    coordinator.report(Report(1, tasks=[TaskReport(BELOW, None, [(TOPIC, 0, 5)], is_done=True)]))
    assert limit(coordinator, 2) is None
    assert coordinator.is_caught_up()


def test_a_reader_may_report_records_before_their_writer_does() -> None:
    """The reader has read them between the commit and the report. It will not report them again."""
    coordinator = made()
    coordinator.report(Report(1, tasks=[TaskReport(BELOW, None, [(TOPIC, 0, 5)], is_done=True)]))
    coordinator.report(Report(0, tasks=[TaskReport(ABOVE, None, is_done=True)], sent=[Sent(TOPIC, 0, 5, at(7))]))
    assert limit(coordinator, 2) is None
    assert coordinator.is_caught_up()


def test_a_reader_that_starts_again_has_records_on_their_way_that_it_had_read_and_not_taken() -> None:
    coordinator = made()
    coordinator.report(Report(0, tasks=[TaskReport(ABOVE, at(8))], sent=[Sent(TOPIC, 0, 5, at(7))]))
    coordinator.report(Report(1, tasks=[TaskReport(BELOW, at(7), [(TOPIC, 0, 5)])]))
    coordinator.begin(1, 2, {})
    coordinator.report(Report(1, start=2, tasks=[TaskReport(BELOW, None, [(TOPIC, 0, 3)])]))
    assert limit(coordinator, 2) == at(7)
    coordinator.report(Report(1, start=2, tasks=[TaskReport(BELOW, at(7), [(TOPIC, 0, 5)])]))
    assert limit(coordinator, 2) == at(7)
    coordinator.report(Report(1, start=2, tasks=[TaskReport(BELOW, None, [(TOPIC, 0, 5)])]))
    assert limit(coordinator, 2) == at(8)


def test_a_writer_that_starts_again_may_have_committed_records_that_it_did_not_report() -> None:
    coordinator = made()
    coordinator.report(Report(0, tasks=[TaskReport(ABOVE, at(6))]))
    coordinator.begin(0, 2, {(TOPIC, 0): 4})
    coordinator.report(Report(0, start=2, tasks=[TaskReport(ABOVE, None)]))
    assert limit(coordinator, 2) == at(6)
    assert not coordinator.report(Report(0, start=1, sent=[Sent(TOPIC, 0, 4, LEAST)])), "it is of an earlier start"


def test_global_tables_are_applied_once_all_workers_have_applied_them() -> None:
    coordinator = made()
    coordinator.report(Report(0, tables=[("table", 0, 9)]))
    coordinator.report(Report(1, tables=[("table", 0, 5)]))
    assert coordinator.orders(0).tables == []
    coordinator.report(Report(2, tables=[("table", 0, 7)]))
    assert coordinator.orders(0).tables == [("table", 0, 5)]
    coordinator.report(Report(1, tables=[("table", 0, 8)]))
    assert coordinator.orders(0).tables == [("table", 0, 7)]


def test_a_task_with_many_waiting_records_slows_down_their_writer() -> None:
    coordinator = made()
    coordinator.report(Report(1, tasks=[TaskReport(BELOW, at(3), [(TOPIC, 0, 0)], pace=at(9))]))
    assert coordinator.orders(0).paces == [(ABOVE.subtopology, at(9))]
    coordinator.report(Report(1, tasks=[TaskReport(BELOW, at(8), [(TOPIC, 0, 0)])]))
    assert coordinator.orders(0).paces == []


# ----- topics inside a cycle -----------------------------------------------------------------------------------------

CYCLE = ExchangeGraph(
    writers={"one": 0, "two": 1, "last": 0},
    readers={"one": 1, "two": 0, "last": 2},
    components={0: 0, 1: 0, 2: 2},
    depths={0: 0, 1: 0, 2: 3},
    delays={"one": 1, "two": 1, "last": 3},
    levels={"one": 1, "two": 2},
)
"""Records pass the topics *one* and *two* from the first sub-topology to the second and back, and then *last*."""


def of_cycle() -> Coordinator:
    """One worker for each of the sub-topologies; all have read everything."""
    ends = {(topic, 0): 0 for topic in CYCLE.writers}
    coordinator = Coordinator(CYCLE, {0: [ABOVE], 1: [BELOW], 2: [LAST]}, ends, exact=True)
    for worker in range(3):
        coordinator.begin(worker, 1, {})
    report(coordinator, ABOVE, [None, None, None], [0, 0, 0])
    report(coordinator, BELOW, [None, None, None], [0, 0, 0])
    report(coordinator, LAST, [None], [0])
    return coordinator


def report(
    coordinator: Coordinator,
    task: TaskId,
    held: list[Position | None],
    through: list[int],
    *,
    read: int = 0,
    sent: tuple[Sent, ...] = (),
    request: int = 0,
) -> None:
    """Reports of the only task of a worker, which reads one topic."""
    (topic,) = [topic for topic, reader in CYCLE.readers.items() if reader == task.subtopology]
    least = min((position for position in held if position is not None), default=None)
    progress = TaskReport(task, least, [(topic, 0, read)], through, held=held)
    coordinator.report(Report(task.subtopology, tasks=[progress], sent=list(sent), request=request))


def inside(coordinator: Coordinator) -> tuple[list[Position | None], list[int]]:
    limit = next(each for each in coordinator.orders(0).limits if each.subtopology == 0)
    return limit.inside, limit.inside_through


def test_a_topic_inside_a_cycle_waits_for_records_of_which_its_own_records_come() -> None:
    """A task of the second topic took records although those of another task were still in the first topic."""
    coordinator = of_cycle()
    assert inside(coordinator) == ([None, None], [0, 0])
    report(coordinator, ABOVE, [at(5), None, None], [0, 0, 0], sent=(Sent("one", 0, 3, at(2)),))
    assert inside(coordinator)[0] == [at(5), at(2)], "on their way"
    report(coordinator, BELOW, [None, at(3), None], [0, 0, 0], read=3, sent=(Sent("two", 0, 1, at(2)),))
    assert inside(coordinator)[0] == [at(5), at(3)], "read and not taken"
    report(coordinator, BELOW, [None, None, None], [0, 0, 0], read=3)
    assert inside(coordinator)[0] == [at(5), at(5)]
    assert limit(coordinator, 2) == at(2), "still on their way in the second topic"


def test_a_cycle_catches_up_level_by_level_while_other_records_pass_it() -> None:
    """The tasks behind a cycle were released only when nothing was inside."""
    coordinator = of_cycle()
    report(coordinator, LAST, [at(9)], [0], request=1)
    assert coordinator.orders(2).granted == (1, 1)
    report(coordinator, ABOVE, [None, None, None], [1, 0, 0], sent=(Sent("one", 0, 3, at(2)),))
    assert inside(coordinator)[1] == [0, 0]
    report(coordinator, BELOW, [None, at(2), None], [1, 0, 0], read=3)
    assert inside(coordinator)[1] == [1, 0]
    report(coordinator, ABOVE, [None, None, None], [1, 1, 0], sent=(Sent("one", 0, 4, at(7)),))
    report(coordinator, BELOW, [None, at(7), None], [1, 1, 0], read=4, sent=(Sent("two", 0, 1, at(2)),))
    assert inside(coordinator)[1] == [1, 1]
    report(coordinator, BELOW, [None, at(7), None], [1, 1, 1], read=4)
    report(coordinator, ABOVE, [None, None, at(6)], [1, 1, 1], read=1)
    last = next(each for each in coordinator.orders(2).limits if each.subtopology == 2)
    assert (last.limit, last.through) == (at(6), 1)
