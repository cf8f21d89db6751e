"""A task of a sink: it reads partitions and writes their records, with their offsets, to the target."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress

from millstream.connect import RefusedRecords, SinkConnector, SinkRecord, SinkWriter
from millstream.core.failpoints import declare, reach
from millstream.errors import BrokerError, ConnectorError, UnknownTopicError
from millstream.log.api import Fetched, Follower
from millstream.runtime.connectors.letters import DeadLetters, LostRecord
from millstream.runtime.connectors.source_task import scope_of
from millstream.runtime.connectors.task import (
    ConnectorTask,
    Environment,
    RecordFailure,
    function_place,
    reason_of,
    transformed,
)
from millstream.serde import Serde
from millstream.serde.api import SerdeContext

READ = declare("connector.sink.read")
WRITTEN = declare("connector.sink.written")

_POLL = 0.1
_LOOK_EVERY = 5.0
"""Seconds between two looks for new partitions, and between two commits of the consumer group."""


class SinkTask(ConnectorTask):
    """Writes some partitions of the topics of a sink. It is the `SinkContext` of the sink.

    Args:
        environment: What the tasks share.
        connector: The connector.
        task: The number of the task.
        letters: Writes the dead letters of the connector.
    """

    def __init__(self, environment: Environment, connector: SinkConnector, task: int, letters: DeadLetters) -> None:
        super().__init__(environment, connector, str(task))
        self.task = task
        self.application_epoch = 0
        self.epoch = 0
        self._spec = connector
        self._scope = scope_of(environment.application, connector.name, str(task))
        self._letters = letters
        self._serdes: dict[str, tuple[Serde[object], Serde[object]]] = {}
        self._group = f"connect-{connector.name}"
        self._at: dict[tuple[str, int], int] = {}
        self._keeps_offsets = True
        self._ends_asked = False

    def _work(self) -> bool:
        log = self._environment.log
        self.application_epoch = self._application_epoch = self._environment.epoch()
        self.epoch = log.applications.acquire(self._scope, application_epoch=self._application_epoch)
        self._at = {}
        with closing(self._spec.sink.open(self)) as writer, closing(log.follow()) as follower:
            self._follow(writer, follower)
            looked = time.monotonic()
            while not self.stopping:
                fetched = follower.poll(_POLL)
                if any(part.offsets or part.next > self._at[part.topic, part.partition] for part in fetched):
                    self._write(writer, fetched)
                elif not any(follower.has_more(*place) for place in self._at):
                    self._note_idle(writer, follower)
                if time.monotonic() - looked >= _LOOK_EVERY:
                    looked = time.monotonic()
                    self._follow(writer, follower)
                    self._commit_group()
            self._commit_group()
        return False

    def expect_idle(self) -> None:
        """Begins to watch for a moment at which there are no more records than those that exist now."""
        self._ends_asked = False
        super().expect_idle()

    def _note_idle(self, writer: SinkWriter, follower: Follower) -> None:
        """Notes that there are no more records, once new partitions and the ends of all were asked for."""
        if self._ends_asked:
            self._was_idle.set()
        elif not self._was_idle.is_set():
            self._ends_asked = True
            self._follow(writer, follower)
            follower.refresh(self._at)

    def _follow(self, writer: SinkWriter, follower: Follower) -> None:
        """Begins to read partitions that are new. A topic that does not exist yet may come."""
        log, spec = self._environment.log, self._spec
        places, missing = [], []
        for index, name in enumerate(spec.topics):
            try:
                count = log.topic(name).partitions
            except UnknownTopicError:
                missing.append(name)
                continue
            own = [number for number in range(count) if (index + number) % spec.tasks == self.task]
            places += [(name, number) for number in own if (name, number) not in self._at]
        self.report(f"waiting for topic {', '.join(missing)}" if missing else "")
        if not places:
            return
        recorded = writer.positions(places)
        self._keeps_offsets = recorded is not None
        if recorded is None:
            recorded = log.committed(self._group)
        names = sorted({name for name, _number in places})
        begins = log.starts(names) if spec.offset_reset == "earliest" else log.ends(names)
        positions = {place: recorded.get(place, begins[place[0]][place[1]]) for place in places}
        follower.follow(positions)
        self._at.update(positions)

    def _write(self, writer: SinkWriter, fetched: Sequence[Fetched]) -> None:
        reach(READ)
        offsets = {(part.topic, part.partition): part.next for part in fetched}
        lost: list[LostRecord] = []
        records = [record for part in fetched for record in self._records(part, lost)]
        sources = {(part.topic, part.partition): part for part in fetched}

        def failed(failure: RecordFailure) -> None:
            record: SinkRecord = failure.record
            where = f"transforms {function_place(self._spec.transforms)}"
            self._lose(lost, sources, record, failure.reason, failure.error, where)

        if self._spec.transforms:
            records = list(transformed(records, self._spec.transforms, failed))
        while True:
            self._letters.write(lost)
            try:
                writer.write(records, offsets)
                break
            except RefusedRecords as refused:
                if not refused.reasons:
                    raise
                for place, reason in refused.reasons.items():
                    error = ConnectorError(reason)
                    self._lose(lost, sources, records[place], "refused by the target", error, "the target")
                records = [record for place, record in enumerate(records) if place not in refused.reasons]
        reach(WRITTEN)
        for failure in lost:
            self.tally.drop(failure.reason)
        self.tally.dead_letters += len(lost) if self._spec.dead_letter_topic else 0
        self._at.update(offsets)
        if not self._keeps_offsets:
            self._environment.log.commit_offsets(self._group, offsets)
        self._progress(len(records))

    def _records(self, part: Fetched, lost: list[LostRecord]) -> list[SinkRecord]:
        key, value = self._serdes_of(part.topic)
        headers = part.headers
        records = []
        for place, offset in enumerate(part.offsets):
            own = headers[place] if headers is not None else ()
            try:
                record = SinkRecord(
                    part.topic,
                    part.partition,
                    offset,
                    key.deserialize_with_headers(part.keys[place], own)
                    if key.uses_headers
                    else key.deserialize(part.keys[place]),
                    value.deserialize_with_headers(part.values[place], own)
                    if value.uses_headers
                    else value.deserialize(part.values[place]),
                    part.timestamps[place],
                    own,
                )
            except Exception as error:
                if getattr(error, "may_pass", False):
                    raise
                self._refuse(error, part.topic, part.partition, offset, "its serde")
                lost.append(LostRecord(part, place, "deserialization error", error))
                continue
            records.append(record)
        return records

    def _lose(
        self,
        lost: list[LostRecord],
        sources: Mapping[tuple[str, int], Fetched],
        record: SinkRecord,
        reason: str,
        error: BaseException,
        by: str,
    ) -> None:
        self._refuse(error, record.origin, record.partition, record.offset, by)
        part = sources[record.origin, record.partition]
        lost.append(LostRecord(part, part.offsets.index(record.offset), reason, error))

    def _refuse(self, error: BaseException, topic: str, partition: int, offset: int, by: str) -> None:
        """Ends the task if the connector's ``on_error`` says so."""
        if self._spec.on_error == "fail":
            raise ConnectorError(
                f"topic {topic}, partition {partition}, offset {offset}: the record is refused by {by}: "
                f"{reason_of(error)}",
                hint="to continue without such records, give the connector on_error='continue', and a "
                "dead_letter_topic to keep them",
            ) from error

    def _serdes_of(self, topic: str) -> tuple[Serde[object], Serde[object]]:
        serdes = self._serdes.get(topic)
        if serdes is None:
            registry = self._environment.registry
            serdes = self._serdes[topic] = (
                self._spec.key.bind(SerdeContext(topic, is_key=True, registry=registry)),
                self._spec.value.bind(SerdeContext(topic, is_key=False, registry=registry)),
            )
        return serdes

    def _commit_group(self) -> None:
        """Commits the offsets to the consumer group, for tools that show its lag."""
        if self._keeps_offsets and self._at:
            with suppress(BrokerError):
                self._environment.log.commit_offsets(self._group, self._at)
