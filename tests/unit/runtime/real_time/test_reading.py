"""Tasks that share a partition are paused each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from millstream.engine.queues import Columns
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.real_time import reading
from millstream.runtime.real_time.reading import Reading
from millstream.runtime.real_time.task import RealTimeTask
from millstream.runtime.real_time.task_inputs import InputKey
from millstream.stages.task_id import TaskId

PLACE = ("in", 0)
COUNT = 40
MOST = 8


class Buffering:
    """The part of a task that buffers records."""

    def __init__(self, number: int, start: int = 0) -> None:
        self.id = TaskId(number, 0)
        self.direct = {PLACE}
        self.next = start
        self.waiting: list[int] = []
        self.taken: list[int] = []

    @property
    def inputs(self) -> dict[InputKey, int]:
        return {PLACE: self.next}

    def next_offset(self, key: InputKey) -> int:
        return self.next

    def receive(self, key: InputKey, columns: Columns, next_offset: int, request: int) -> None:
        self.waiting += columns.offsets
        self.next = next_offset

    def buffered(self, key: InputKey) -> int:
        return len(self.waiting)

    def take(self, count: int) -> None:
        self.taken += self.waiting[:count]
        del self.waiting[:count]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as log:
        log.create_topic("in", partitions=1)
        for number in range(COUNT):  # each in a block of its own
            log.produce("in", [ProducerRecord(b"", b"%d" % number, number)])
        yield log


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_BUFFERED", MOST)


def begin(reader: Reading, task: Buffering) -> None:
    reader.begin(cast("RealTimeTask", task))


def step(reader: Reading) -> None:
    fetched = reader._follower.poll(0, 1)  # one record, so that many steps lie between the ends
    for each in fetched:
        reader._receive(each, 1)
    reader.note_ends(1)
    reader.limit_buffers()


@pytest.mark.parametrize("until", [None, {"in": [COUNT]}], ids=["no end", "up to an end"])
def test_a_task_with_a_full_buffer_does_not_hold_up_the_task_that_it_waits_for(
    log: Log, until: dict[str, list[int]] | None
) -> None:
    reader = Reading(log, until, {})
    waiting, awaited = Buffering(1), Buffering(0)
    begin(reader, waiting)
    for _ in range(COUNT):
        step(reader)
    assert len(waiting.waiting) == MOST + 1  # the other task is restored meanwhile
    begin(reader, awaited)
    for _ in range(3 * COUNT):
        step(reader)
        awaited.take(1)
        ahead = len(awaited.taken) - 20
        waiting.take(max(0, ahead - len(waiting.taken)))  # it stays 20 records behind, more than it may buffer
    waiting.take(COUNT)
    for _ in range(2 * COUNT):
        step(reader)
        waiting.take(1)
    assert awaited.taken == list(range(COUNT))
    assert waiting.taken == list(range(COUNT))
    assert not reader.has_more(PLACE, cast("RealTimeTask", waiting))
    reader.close()
