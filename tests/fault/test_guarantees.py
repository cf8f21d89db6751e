"""The guarantees of ``processing.guarantee``, with crashes before and after the publication of a batch."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.helpers import in_child

from millstream import App
from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.errors import NonDeterministicError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.program.program import pack_program
from millstream.runtime.read.inputs import Range
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.slots import slots
from millstream.runtime.spark.source import Before, MillstreamReader, Part, Settings

COUNT = 100
RECORDS = 20


def build(directory: Path, guarantee: str, *, deterministic: bool, **config: Any) -> App:
    """Copies ``in`` to ``out``; unless ``deterministic``, with random bytes added to each value."""
    config = {"state.dir": str(directory), "status": "none", "processing.guarantee": guarantee, **config}
    app = App("guarded", config=config)
    stream = app.stream("in", value=str)
    stream.map_values(lambda text: text if deterministic else f"{text} {os.urandom(8).hex()}", value=str).to("out")
    stream.group_by_key().count(store="counts").to_stream().to("counts-out")
    return app


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with open_log(tmp_path / "data") as log:
        log.create_topic("in", 1)
        log.produce("in", [ProducerRecord(b"k", str(number).encode(), number) for number in range(COUNT)])
    return tmp_path / "data"


def run(app: App, point: str | None = None) -> int:
    kind = SkippingRun if app.config["processing.guarantee"] == "at_most_once" else InProcessRun

    def child() -> None:
        arm(point)
        with kind(app, records=RECORDS) as local:
            local.run()

    return in_child(child)


class SkippingRun(InProcessRun):
    """Reads the ranges of Spark's source, which skips a batch that was started before."""

    def __init__(self, app: App, *, records: int) -> None:
        super().__init__(app, records=records)
        application = self.application
        settings = Settings(
            ShippedProgram(pack_program(application.program), None, application.directory),
            str(application.directory / "control.json"),
            application.first,
            readers=2,
            slots=slots(application.program.tasks),
            run="",
            hosts=0,
            before=Before(application.started_batch()),
        )
        source = MillstreamReader(settings)

        def ranges(start: BatchEnd, end: BatchEnd) -> list[Range]:
            parts = source.partitions(start.to_plain(), end.to_plain())
            return [span for part in parts if isinstance(part, Part) for span in part.ranges]

        self._planner.ranges = ranges  # type: ignore[method-assign]


def numbers(directory: Path) -> list[int]:
    with open_log(directory) as log:
        values: list[Any] = log.read("out", 0, 0, log.ends(["out"])["out"][0])["value"].to_pylist()
    return [int(value.split()[0]) for value in values]


PUBLISHED = "driver.batch.published:3"
RECEIVED = "driver.batch.received:3"


@pytest.mark.parametrize("point", [PUBLISHED, RECEIVED])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_replay_with_the_same_results_is_written_once(guarantee: str, point: str, directory: Path) -> None:
    app = build(directory, guarantee, deterministic=True)
    assert run(app, point) == EXIT_STATUS
    assert run(app) == 0
    assert numbers(directory) == list(range(COUNT))


def test_exactly_once_stops_at_a_replay_with_other_results(directory: Path) -> None:
    app = build(directory, "exactly_once", deterministic=False)
    assert run(app, PUBLISHED) == EXIT_STATUS
    before = numbers(directory)
    with InProcessRun(app, records=RECORDS) as local, pytest.raises(NonDeterministicError, match="in-map-values"):
        local.run()
    assert numbers(directory) == before == list(range(3 * RECORDS))


def test_at_least_once_writes_a_replay_with_other_results_again(directory: Path) -> None:
    app = build(directory, "at_least_once", deterministic=False)
    assert run(app, PUBLISHED) == EXIT_STATUS
    assert run(app) == 0
    counts = Counter(numbers(directory))
    assert set(counts) == set(range(COUNT))
    assert sorted(number for number, count in counts.items() if count > 1) == list(range(2 * RECORDS, 3 * RECORDS))
    assert set(counts.values()) == {1, 2}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_batch_that_was_not_published_may_give_other_results(guarantee: str, directory: Path) -> None:
    app = build(directory, guarantee, deterministic=False)
    assert run(app, RECEIVED) == EXIT_STATUS
    assert run(app) == 0
    assert numbers(directory) == list(range(COUNT))


@pytest.mark.parametrize("location", [None, "{}/checkpoint", "file://{}/checkpoint"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_at_most_once_skips_a_batch_that_was_started(
    deterministic: bool, location: str | None, directory: Path
) -> None:
    place = None if location is None else location.format(directory)
    app = build(directory, "at_most_once", deterministic=deterministic, **{"checkpoint.location": place})
    assert run(app, RECEIVED) == EXIT_STATUS
    assert run(app, "reader.after-read:1") == EXIT_STATUS
    assert run(app, "in-process.after-offsets:2") == EXIT_STATUS
    assert run(app) == 0
    lost = {*range(2 * RECORDS, 3 * RECORDS), *range(3 * RECORDS, 4 * RECORDS)}
    assert numbers(directory) == [number for number in range(COUNT) if number not in lost]


@pytest.mark.parametrize("deterministic", [True, False])
def test_at_most_once_neither_loses_nor_repeats_a_published_batch(deterministic: bool, directory: Path) -> None:
    app = build(directory, "at_most_once", deterministic=deterministic)
    assert run(app, PUBLISHED) == EXIT_STATUS
    assert run(app) == 0
    assert numbers(directory) == list(range(COUNT))
