"""No record waits for ever, and each test says for how many batches it waits at most.

`orders` are joined with a table behind one exchange or several, which is made of `clicks`. An order waits for clicks
that were in the log with it. An order that a batch reads is taken at most *k* batches later, behind *k* exchanges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from millstream import App, Processor, Record, Stream, Table
from millstream.core.durations import END_OF_TIME
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

HOUR = 3_600_000
NOW = 1_700_000_000_000
PARTITIONS = 3
MOST = 20
"""More batches than any record waits."""

Clicks = Stream[str, str]


# ----- topologies --------------------------------------------------------------------------------------------------


def by_first(stream: Stream[str, Any]) -> Stream[str, Any]:
    """The stream with keys that begin with another letter: the exchange has a topic behind a store."""
    return stream.select_key(lambda key, _value: f"x{key}", key=str)


def behind_one(_app: App, clicks: Clicks) -> Table[str, Any]:
    return by_first(clicks.group_by_key().count().to_stream()).group_by_key().count()


def behind_two(app: App, clicks: Clicks) -> Table[str, Any]:
    return by_first(behind_one(app, clicks).to_stream()).group_by_key().count()


def behind_three(app: App, clicks: Clicks) -> Table[str, Any]:
    return by_first(behind_two(app, clicks).to_stream()).group_by_key().count()


def behind_a_filter(_app: App, clicks: Clicks) -> Table[str, Any]:
    """A sender that never sends."""
    counts = clicks.group_by_key().count().to_stream()
    return by_first(counts.filter(lambda _key, _value: False)).group_by_key().count()


def behind_a_foreign_key(app: App, clicks: Clicks) -> Table[str, Any]:
    """A foreign-key join, whose two topics form a cycle, and an exchange."""
    users = app.table("users", key=str, value=str)
    latest = clicks.to_table()
    joined = latest.left_join(users, lambda click, user: f"{click} {user}", on=lambda click: click[-1:])
    return by_first(joined.to_stream()).group_by_key().count()


class Counting(Processor[str, Any, str, int]):
    """Counts all records in a store that several processors share."""

    def init(self) -> None:
        self.counts = self.context.store("shared")

    def process(self, record: Record[str, Any]) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(Record(record.key, count, record.timestamp))


def behind_a_shared_store(app: App, clicks: Clicks) -> Table[str, Any]:
    """Two processors with one store, and a topic from one to the other: a cycle of a sub-topology with itself."""
    app.add_store("shared", key=str, value=int)
    first = clicks.process(Counting, "shared", key=str, value=int)
    again = by_first(first).repartition(name="again").process(Counting, "shared", key=str, value=int)
    return by_first(again).group_by_key().count()


TOPOLOGIES: dict[str, tuple[int, Callable[[App, Clicks], Table[str, Any]]]] = {
    "one exchange": (1, behind_one),
    "two exchanges": (2, behind_two),
    "three exchanges": (3, behind_three),
    "nothing sent": (1, behind_a_filter),
    "foreign key": (3, behind_a_foreign_key),
    "shared store": (2, behind_a_shared_store),
}
"""Each topology with its number of exchanges."""

every_topology = pytest.mark.parametrize("kind", TOPOLOGIES)
TIMES = (NOW - 9 * HOUR, NOW, NOW + 9 * HOUR, END_OF_TIME)
DESCENDING = ("two exchanges", "foreign key")
"""The topologies that also get records at descending times: one without a cycle, one with a cycle."""


def at_times(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Runs a test for topologies, with records at ascending and at descending times."""
    ascending = [pytest.param(kind, TIMES, id=f"{kind}, ascending") for kind in kinds]
    descending = [pytest.param(kind, TIMES[::-1], id=f"{kind}, descending") for kind in DESCENDING]
    return pytest.mark.parametrize(("kind", "times"), ascending + descending)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner looks for new records, and for new topics, without a pause."""
    monkeypatch.setattr("millstream.runtime.batches.planner._WAIT", 0)
    monkeypatch.setattr("millstream.runtime.batches.planner._REFRESH", 0)


class Case:
    """An application, its log, and records for it."""

    def __init__(self, directory: Path, kind: str, **config: Any) -> None:
        self.most, self._build = TOPOLOGIES[kind]
        self._directory = directory
        self._config = config
        self.log: Log = open_log(directory)
        for topic in ("orders", "clicks", "users"):
            self.log.create_topic(topic, PARTITIONS)
        self._turn = itertools.count()

    def app(self, pattern: str | None = None) -> App:
        config = {"state.dir": str(self._directory), "num.tasks": 2, "status": "none", **self._config}
        app = App("live", config=config)
        clicks = app.stream(*([] if pattern else ["clicks"]), key=str, value=str, pattern=pattern)
        table = self._build(app, clicks)
        orders = app.stream("orders", key=str, value=str)
        orders.left_join(table, lambda order, count: f"{order} {count}").to("taken")
        table.to_stream().to("counted")
        return app

    def send(self, topic: str, key: str, time: int, partition: int | None = None) -> None:
        self.log.produce(topic, [ProducerRecord(key.encode(), key.encode(), time, partition=partition)])

    def send_clicks(self) -> None:
        """A click in each partition. The clocks of the partitions differ by hours."""
        turn = next(self._turn)
        for partition, skew in enumerate((-3 * HOUR, 0, 3 * HOUR)):
            self.send("clicks", f"c{turn % 5}", NOW + turn * 1000 + skew, partition)

    def send_orders(self) -> None:
        """An order in each partition. The clocks of the partitions differ by more hours."""
        turn = next(self._turn)
        for partition, skew in enumerate((5 * HOUR, -5 * HOUR, 0)):
            self.send("orders", f"o{turn}", NOW + turn * 1000 + skew, partition)

    def taken(self, topic: str = "taken") -> list[str]:
        """The keys of the orders that were taken, or those of another topic."""
        ends = self.log.ends([topic])[topic]
        return [
            key.decode() for p, end in enumerate(ends) for key in self.log.read(topic, p, 0, end)["key"].to_pylist()
        ]

    def batches_until_taken(
        self, run: InProcessRun, key: str, arrive: Callable[[], None] = lambda: None, topic: str = "taken"
    ) -> int:
        """Runs batches until a record that is in the log is taken.

        Args:
            run: The application.
            key: The key of the record.
            arrive: Writes the records that arrive before each batch.
            topic: The output that shows it. Each exchange puts a letter before the key.

        Returns:
            How many batches ran after the one that read the record.
        """
        for waited in range(MOST):
            arrive()
            assert run.batch()
            if any(output.endswith(key) for output in self.taken(topic)):
                return waited
        raise AssertionError(f"not taken after {MOST} batches")


def waiting(run: InProcessRun) -> int:
    return sum(result.waiting for result in run.results)


def finish(run: InProcessRun, most: int) -> None:
    """Runs the batches that remain after the last record was written.

    Args:
        run: The application.
        most: The greatest number of batches.
    """
    assert run.run() <= most
    assert waiting(run) == 0
    assert not run.batch()


# ----- continuous arrivals -----------------------------------------------------------------------------------------


@at_times(TOPOLOGIES)
def test_an_order_waits_one_batch_for_each_exchange_while_clicks_arrive(
    kind: str, times: tuple[int, ...], tmp_path: Path
) -> None:
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for time in times:  # the first order before any click was read
            case.send("orders", f"o{time}", time)
            assert case.batches_until_taken(run, f"o{time}", case.send_clicks) <= case.most
        finish(run, 2 * case.most + 2)
    assert sorted(case.taken()) == sorted(f"o{time}" for time in times)


@at_times(kind for kind in TOPOLOGIES if kind != "nothing sent")
def test_a_click_passes_each_exchange_in_one_batch_while_orders_arrive(
    kind: str, times: tuple[int, ...], tmp_path: Path
) -> None:
    """Internal records do not wait at all."""
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for time in times:
            case.send("clicks", f"c{time}", time)
            assert case.batches_until_taken(run, f"c{time}", case.send_orders, "counted") == case.most
        finish(run, 2 * case.most + 2)


@every_topology
def test_an_order_waits_as_long_if_all_inputs_go_on(kind: str, tmp_path: Path) -> None:
    """Orders in each batch, with the clocks of their partitions hours apart: each is taken in time."""
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for turn in range(12):
            case.send_clicks()
            for partition, skew in enumerate((5 * HOUR, -5 * HOUR, 0)):
                case.send("orders", f"o{turn}-{partition}", NOW + turn * 1000 + skew, partition)
                case.send("users", str(partition), NOW - skew, partition)
            assert run.batch()
            due = {f"o{past}-{partition}" for past in range(turn - case.most + 1) for partition in range(PARTITIONS)}
            assert due <= set(case.taken())
        finish(run, 2 * case.most + 2)
    assert len(case.taken()) == 12 * PARTITIONS


@at_times(TOPOLOGIES)
def test_a_click_at_any_time_holds_up_no_later_records(kind: str, times: tuple[int, ...], tmp_path: Path) -> None:
    """Also at the end of time: all later records of the partition are there, too."""
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for time in times:
            case.send("clicks", "c", time, 0)
            case.send("orders", f"o{time}", NOW)
            assert case.batches_until_taken(run, f"o{time}", lambda: case.send("clicks", "c", NOW, 0)) <= case.most
        finish(run, 2 * case.most + 2)


@at_times(TOPOLOGIES)
def test_without_exact_replays_an_order_is_taken_by_the_batch_that_reads_it(
    kind: str, times: tuple[int, ...], tmp_path: Path
) -> None:
    case = Case(tmp_path, kind, **{"exact.replays": False})
    with InProcessRun(case.app()) as run:
        for time in times:
            case.send("orders", f"o{time}", time)
            assert case.batches_until_taken(run, f"o{time}", case.send_clicks) == 0
        finish(run, case.most + 2)


# ----- inputs without records --------------------------------------------------------------------------------------


@at_times(TOPOLOGIES)
def test_an_order_waits_for_no_topic_that_is_empty_or_that_nobody_writes(
    kind: str, times: tuple[int, ...], tmp_path: Path
) -> None:
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for time in times:
            case.send("orders", f"o{time}", time)
            assert case.batches_until_taken(run, f"o{time}") == 0
            finish(run, 0)


@every_topology
def test_an_order_waits_for_no_input_that_is_idle_or_has_ended(kind: str, tmp_path: Path) -> None:
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for turn in range(3):
            case.send_clicks()
            finish(run, 2 * case.most + 2)
            for time in (NOW - 9 * HOUR, NOW + 9 * HOUR):
                key = f"o{turn} {time}"
                case.send("orders", key, time)
                assert case.batches_until_taken(run, key) == 0
        run.change(until={**case.log.ends(["clicks", "users"]), "orders": [END_OF_TIME] * PARTITIONS})
        case.send("clicks", "c", NOW)  # not read any more
        case.send("orders", "last", NOW)
        assert case.batches_until_taken(run, "last", lambda: case.send("orders", "other", NOW)) == 0


@every_topology
def test_a_partition_that_never_gets_a_record_holds_nothing_back(kind: str, tmp_path: Path) -> None:
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        for turn in range(4):
            case.send("orders", f"o{turn}", NOW + 9 * HOUR, 1)
            arrive = partial(case.send, "clicks", f"c{turn}", NOW + turn, 2)
            assert case.batches_until_taken(run, f"o{turn}", arrive) <= case.most
        finish(run, 2 * case.most + 2)


@every_topology
@pytest.mark.parametrize("records", [1, 2, 7, 50])
def test_a_backlog_ends_with_nothing_waiting(kind: str, records: int, tmp_path: Path) -> None:
    """Whatever the batch size is, and with timestamps hours apart. A batch reads at least one record."""
    case = Case(tmp_path, kind)
    for turn in range(10):
        case.send_clicks()
        case.send("orders", f"o{turn}", NOW + (turn % 5 - 2) * HOUR)
        case.send("users", str(turn), NOW + (turn % 3 - 1) * HOUR)
    with InProcessRun(case.app(), records=records) as run:
        finish(run, 50 * (case.most + 1) + 2 * case.most + 2)
    assert len(case.taken()) == 10


@every_topology
def test_an_order_ahead_of_the_clicks_waits_until_the_application_has_caught_up(kind: str, tmp_path: Path) -> None:
    """More clicks arrive than a batch reads: the order waits, and is taken *k* batches after the load has ended."""
    case = Case(tmp_path, kind)
    case.send("orders", "o", NOW + 9 * HOUR)
    with InProcessRun(case.app(), records=6) as run:
        for _turn in range(8):
            for _click in range(4):
                case.send_clicks()
            assert run.batch()
            assert case.taken() == []
        while run.checkpoint.end(run.checkpoint.next_batch - 1).has_more:
            assert run.batch()
        for _exchange in range(case.most):
            run.batch()
        assert case.taken() == ["o"]
        finish(run, 2 * case.most + 2)


@at_times(TOPOLOGIES)
def test_the_backlog_of_a_topic_that_orders_never_meet_does_not_delay_them(
    kind: str, times: tuple[int, ...], tmp_path: Path
) -> None:
    """More records of another topic arrive than a batch reads. They pass an exchange, too."""
    case = Case(tmp_path, kind)
    case.log.create_topic("apart", PARTITIONS)
    app = case.app()
    apart = by_first(app.stream("apart", key=str, value=str).group_by_key().count().to_stream())
    apart.group_by_key().count().to_stream().to("apart-counts")

    def arrive() -> None:
        case.send_clicks()
        keys = [f"a{number}".encode() for number in range(60)]
        case.log.produce("apart", [ProducerRecord(key, key, NOW) for key in keys])

    with InProcessRun(app, records=40) as run:
        for time in times:
            case.send("orders", f"o{time}", time)
            assert case.batches_until_taken(run, f"o{time}", arrive) <= case.most
            assert any(run.checkpoint.end(run.checkpoint.next_batch - 1).has_more["apart"])
    assert sorted(case.taken()) == sorted(f"o{time}" for time in times)


# ----- pauses and restarts -----------------------------------------------------------------------------------------


@every_topology
def test_records_that_wait_are_taken_after_a_pause(kind: str, tmp_path: Path) -> None:
    """Also if nothing arrives any more; a pause counts as no batch."""
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        case.send_clicks()
        case.send("orders", "before", NOW + 9 * HOUR)
        assert run.batch()
        assert waiting(run) == 1
        run.change(paused=True)
        assert not run.batch()
        case.send_clicks()
        case.send("orders", "while", NOW + 9 * HOUR)
        assert not run.batch()
        assert case.taken() == []
        run.change(paused=False)
        assert case.batches_until_taken(run, "while") <= case.most
        assert "before" in case.taken()
        finish(run, case.most)


@every_topology
@pytest.mark.parametrize("ticks", [False, True])
def test_records_that_wait_are_taken_after_a_restart(kind: str, ticks: bool, tmp_path: Path) -> None:
    """Also if nothing arrives any more."""
    case = Case(tmp_path, kind)
    with InProcessRun(case.app()) as run:
        case.send_clicks()
        case.send("orders", "before", NOW + 9 * HOUR)
        assert run.batch()
        assert waiting(run) == 1
    for _start in range(case.most):
        with InProcessRun(case.app(), ticks=ticks) as run:
            assert run.batch()
    assert case.taken() == ["before"]


# ----- patterns ----------------------------------------------------------------------------------------------------


@at_times(TOPOLOGIES)
def test_a_new_topic_of_a_pattern_holds_nothing_back(kind: str, times: tuple[int, ...], tmp_path: Path) -> None:
    """Whether it has no records, or begins hours before or after the other topics."""
    case = Case(tmp_path, kind)
    with InProcessRun(case.app(pattern="clicks.*")) as run:
        case.send("orders", "before", NOW)
        assert case.batches_until_taken(run, "before", case.send_clicks) <= case.most
        case.log.create_topic("clicks-empty", PARTITIONS)
        for time in times:
            topic = f"clicks-{time}"
            case.log.create_topic(topic, PARTITIONS)
            case.send("orders", topic, NOW)
            assert case.batches_until_taken(run, topic, partial(case.send, topic, "c", time)) <= case.most
        finish(run, 2 * case.most + 2)
