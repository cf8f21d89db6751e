"""Runs generated cases, and compares their results; see `test_replays` for what is compared with what."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.property.facts import Facts
from tests.property.generation import Case, Input, Member, Segment
from tests.property.topologies import Builder

from millstream import App, TestDriver
from millstream.errors import UnknownStoreError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.in_process import batches
from millstream.runtime.in_process.batches import InProcessRun

UNCUT = (Segment((1_000_000,), False, None),)
KEYS = [f"{letter}{number}" for letter in "kg" for number in range(8)]
"""The keys that a session store may have; of those that contain a window, sessions are not compared."""

PREFIXES = [f"{number:02}-" for number in range(100)]
"""The beginnings of the names of each topology of a case."""

ByKey = dict[bytes | None, list[tuple[bytes | None, int]]]
"""The values and timestamps of the records of each key, in order."""


class Results(NamedTuple):
    """What a run gave.

    Attributes:
        outputs: By topic and key, the records in order.
        stores: By store, the rows with timestamps, and without.
    """

    outputs: dict[str, ByKey]
    stores: dict[str, tuple[list[str], list[str]]]


class Crash(Exception):  # noqa: N818  (it is no error)
    """Ends a run at a failpoint."""


def by_position(records: tuple[Input, ...]) -> list[Input]:
    """Returns the records in the order of positions: running maximum of the partition, its ordinal, offset."""
    latest: dict[tuple[str, int], int] = {}
    positions = []
    for offset, record in enumerate(records):
        place = record.topic, record.partition
        latest[place] = max(latest.get(place, -1), record.timestamp)
        positions.append((latest[place], place, offset))
    return [records[offset] for _time, _place, offset in sorted(positions)]


# ----- runs --------------------------------------------------------------------------------------------------------


def run_driver(member: Member, prefix: str) -> Results:
    """Pipes the records into the test driver in the order of positions."""
    builder = member.build(App("generated"), prefix)
    with TestDriver(builder.app) as driver:
        for record in by_position(member.records):
            driver.input(prefix + record.topic).pipe(record.key, record.value, timestamp=record.timestamp)
        outputs: dict[str, ByKey] = {topic: {} for topic in builder.sinks}
        for topic, by_key in outputs.items():
            for written in driver.output(topic, key=bytes, value=bytes).read_all():
                by_key.setdefault(written.key, []).append((written.value, written.timestamp))
        return Results(outputs, dump_stores(driver, builder))


def run_cut(case: Case, segments: tuple[Segment, ...]) -> list[Results]:
    """Runs a case whose records are all in the log before the start."""
    with tempfile.TemporaryDirectory() as directory:
        with open_log(directory) as log:
            fill(log, case)
        for segment in segments:
            _run_segment(case, directory, segment)
        last = segments[-1]
        with InProcessRun(application(case, directory), records=last.sizes[-1], cold=last.cold) as run:
            run.run()
        return read_results(case, directory)


def run_live(case: Case) -> list[Results]:
    """Runs a case whose records arrive one by one, in the order of positions; each is processed before the next."""
    with tempfile.TemporaryDirectory() as directory:
        with open_log(directory) as log:
            fill(log, case, empty=True)
            with InProcessRun(application(case, directory)) as run:
                for number in range(max(len(member.records) for member in case.members)):
                    fill_next(log, case, number)
                    run.run()
        return read_results(case, directory)


def application(case: Case, directory: str, **config: Any) -> App:
    """Builds the application of a case."""
    app = App("generated", config={"state.dir": directory, "status": "none", "num.tasks": case.tasks, **config})
    for prefix, member in zip(PREFIXES, case.members, strict=False):
        member.build(app, prefix)
    return app


def fill(log: Log, case: Case, *, empty: bool = False) -> None:
    """Creates the input topics, and appends all records unless they stay empty."""
    for prefix, member in zip(PREFIXES, case.members, strict=False):
        for topic, count in member.partitions.items():
            log.create_topic(prefix + topic, count)
        append(log, prefix, () if empty else member.records)


def fill_next(log: Log, case: Case, number: int) -> None:
    """Appends the record of each topology with a number in the order of positions."""
    for prefix, member in zip(PREFIXES, case.members, strict=False):
        append(log, prefix, by_position(member.records)[number : number + 1])


def append(log: Log, prefix: str, records: Sequence[Input]) -> None:
    """Appends records to their partitions."""
    for topic, partition in sorted({(record.topic, record.partition) for record in records}):
        chosen = [record for record in records if (record.topic, record.partition) == (topic, partition)]
        log.produce(prefix + topic, [_produced(record) for record in chosen], partition=partition)


def _produced(record: Input) -> ProducerRecord:
    key, value = (None if text is None else text.encode() for text in (record.key, record.value))
    return ProducerRecord(key, value, record.timestamp)


def _run_segment(case: Case, directory: str, segment: Segment) -> None:
    with InProcessRun(application(case, directory), cold=segment.cold) as run:
        for size in segment.sizes[:-1]:
            run.change(records=size)
            run.batch()
        run.change(records=segment.sizes[-1])
        with crashing(segment.crash):
            run.batch()


@contextmanager
def crashing(point: str | None) -> Iterator[None]:
    """Ends a batch where it reaches a failpoint. Nothing that the run has in memory is used afterwards."""

    def reach(reached: str) -> None:
        if reached == point:
            raise Crash

    with patch.object(batches, "reach", reach), suppress(Crash):
        yield


# ----- results -----------------------------------------------------------------------------------------------------


def read_results(case: Case, directory: str) -> list[Results]:
    """Reads output topics and stores of each topology."""
    app = application(case, directory)
    results = []
    with open_log(directory) as log:
        known = {topic.name for topic in log.topics()}
        for builder in builders(case):
            outputs = {topic: read_topic(log, topic) if topic in known else {} for topic in builder.sinks}
            results.append(Results(outputs, dump_stores(app, builder)))
    return results


def builders(case: Case) -> list[Builder]:
    """Builds each topology as an application of its own."""
    return [member.build(App("generated"), prefix) for prefix, member in zip(PREFIXES, case.members, strict=False)]


def read_topic(log: Log, topic: str) -> ByKey:
    """Returns the records of a topic by key, in order."""
    by_key: ByKey = {}
    for partition, end in enumerate(log.ends([topic])[topic]):
        for row in log.read(topic, partition, 0, end).to_pylist():
            by_key.setdefault(row["key"], []).append((row["value"], row["timestamp"]))
    return by_key


def dump_stores(host: Any, builder: Builder) -> dict[str, tuple[list[str], list[str]]]:
    """Returns the rows of all stores, sorted."""
    return {
        name: (_rows(host, name, kind, True), _rows(host, name, kind, False))
        for name, (_, kind) in builder.stores.items()
    }


def _rows(host: Any, name: str, kind: str, timestamped: bool) -> list[str]:
    try:
        store = host.store(name, timestamped=timestamped and kind not in {"plain", "session"})
    except UnknownStoreError:
        return []
    rows = [row for key in KEYS for row in store.fetch(key)] if kind == "session" else store.all()
    return sorted(map(str, rows))


# ----- comparison --------------------------------------------------------------------------------------------------


def check(case: Case, *, live: bool = False) -> None:
    """Runs a case, and asserts that its results are those of the driver and of another run.

    Args:
        case: The case.
        live: The other run gets the records one by one. Otherwise it gets all of them at once, in as few batches as
            possible.
    """
    results = run_cut(case, case.segments)
    differences = compare_with_driver(case, results)
    if not differences:
        differences = compare_runs(case, run_live(case) if live else run_cut(case, UNCUT), results)
    assert not differences, "\n".join(differences)


def compare_with_driver(case: Case, results: list[Results]) -> list[str]:
    """Returns the differences between the results of a case and those of the test driver."""
    differences = []
    for builder, prefix, member, got in zip(builders(case), PREFIXES, case.members, results, strict=False):
        differences += compare(builder, run_driver(member, prefix), got, tasks=case.tasks)
    return differences


def compare_runs(case: Case, reference: list[Results], results: list[Results]) -> list[str]:
    """Returns the differences between two runs of a case with the same number of tasks."""
    differences = []
    for builder, wanted, got in zip(builders(case), reference, results, strict=True):
        differences += compare(builder, wanted, got, tasks=None)
    return differences


def compare(builder: Builder, wanted: Results, got: Results, *, tasks: int | None) -> list[str]:
    """Returns the differences between two runs that must not be.

    Args:
        builder: The topology.
        wanted: The reference.
        got: The results to check.
        tasks: The number of tasks, if the reference is the test driver; None, if it is a run with as many tasks.
    """
    reference = "driver" if tasks else "another run"
    differences: list[str] = []
    for topic, facts in builder.sinks.items():
        if is_strict(facts, tasks):
            differences += _compare_outputs(f"{reference}: {topic}", facts, wanted.outputs[topic], got.outputs[topic])
    for store, (facts, _kind) in builder.stores.items():
        (rows, values), (other_rows, other_values) = wanted.stores[store], got.stores[store]
        if is_strict(facts, tasks):
            if rows != other_rows:
                differences.append(f"{reference}: store {store}: expected {rows}, got {other_rows}")
        elif is_settled(facts, tasks) and values != other_values:
            differences.append(f"{reference}: values of store {store}: expected {values}, got {other_values}")
    return differences


def is_strict(facts: Facts, tasks: int | None) -> bool:
    """Whether each record of a key, in order, and each row must be the same."""
    if tasks is None:
        return not facts.cyclic
    return not (facts.cyclic or facts.punctuated or facts.disordered or (facts.timed and tasks > 1))


def is_settled(facts: Facts, tasks: int | None) -> bool:
    """Whether the values of the rows must be the same in the end."""
    return facts.settled and (tasks is None or not (facts.punctuated or (facts.timed and tasks > 1)))


def _compare_outputs(name: str, facts: Facts, wanted: Any, got: Any) -> Iterator[str]:
    for key in sorted({*wanted, *got}, key=str):
        expected, other = wanted.get(key, []), got.get(key, [])
        if key is None or facts.moved or facts.merged:  # several tasks or readers emit them
            expected, other = sorted(expected, key=str), sorted(other, key=str)
        if expected != other:
            yield f"{name}, key {key}: expected {expected}, got {other}"
