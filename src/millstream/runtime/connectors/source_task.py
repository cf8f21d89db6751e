"""A task of a source: it appends records to topics, and records the position in the same transaction."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

import msgspec

from millstream.connect import SourceConnector, SourceRecord
from millstream.connect.converters.api import Convert
from millstream.core.failpoints import declare, reach
from millstream.errors import ConnectorError, UnknownTopicError
from millstream.log.api import Append, ProducerRecord, Publication, Scope, Topic
from millstream.log.producing import route
from millstream.runtime.connectors.task import (
    ConnectorTask,
    Environment,
    RecordFailure,
    function_place,
    reason_of,
    transformed,
)
from millstream.serde.api import SerdeContext

READ = declare("connector.source.read")
PUBLISHED = declare("connector.source.published")

POSITION = "position"
COMMANDS = "commands"

_MOST_RECORDS = 20_000
_MOST_COMMANDS = 100


def scope_of(application: str, connector: str, task: str) -> Scope:
    """The scope in which a task of a connector publishes."""
    return Scope(application, f"connector-{connector}-{task}")


class SourceTask(ConnectorTask):
    """Reads one split of a source. It is the `SourceContext` of the source.

    Args:
        environment: What the tasks share.
        connector: The connector.
        split: The split.
    """

    def __init__(self, environment: Environment, connector: SourceConnector, split: str) -> None:
        super().__init__(environment, connector, split)
        self.committed: Any = None
        self.commands: Collection[Mapping[str, Any]] = ()
        self._spec = connector
        self._scope = scope_of(environment.application, connector.name, split)
        self._topics: dict[str, Topic] = {}
        self._converts: dict[str, tuple[Convert, Convert]] = {}
        self._new_commands: list[Mapping[str, Any]] = []
        self._epoch = 0
        self._batch = 0
        self._linger = environment.config["commit.interval.ms"] / 1000

    def command(self, command: Mapping[str, Any]) -> None:
        """Gives the source a command. It is recorded before the source sees it."""
        self._new_commands.append(command)

    def _work(self) -> bool:
        applications = self._environment.log.applications
        self._application_epoch = self._environment.epoch()
        self._epoch = applications.acquire(self._scope, application_epoch=self._application_epoch)
        state = applications.state(self._scope)
        position = self.committed = _decoded(state.get(POSITION))
        self.commands = tuple(_decoded(state.get(COMMANDS)) or ())
        published = applications.published(self._scope)
        self._batch = 0 if published is None else published.batch + 1
        self._topics.clear()
        self.tally.progress = ""
        pending: list[SourceRecord] = []
        moved = False
        since = 0.0
        with closing(self._spec.source.read(self.name, position, self)) as batches:  # type: ignore[type-var]
            for batch in batches:
                if batch is not None:
                    if not moved:
                        since = time.monotonic()
                    pending.extend(batch.records)
                    position, moved = batch.position, True
                is_due = batch is None or len(pending) >= _MOST_RECORDS or time.monotonic() - since >= self._linger
                if (moved and (is_due or self.stopping)) or self._new_commands:
                    self._publish(pending, position, moved=moved)
                    pending, moved = [], False
                if batch is None and not self.tally.progress:  # a long step has no records at times
                    self._was_idle.set()
                if self.stopping:
                    return False
        if moved:
            self._publish(pending, position, moved=True)
        return True

    def _publish(self, records: Sequence[SourceRecord], position: Any, *, moved: bool) -> None:
        reach(READ)
        if self._spec.transforms:
            records = transformed(records, self._spec.transforms, self._failed)
        appends = self._appends(records)
        state = {POSITION: msgspec.json.encode(position)} if moved else {}
        if self._new_commands:
            taken, self._new_commands = self._new_commands, []
            self.commands = (*self.commands, *taken)[-_MOST_COMMANDS:]
            state[COMMANDS] = msgspec.json.encode(list(self.commands))
        self._environment.log.applications.publish(
            Publication(self._scope, self._epoch, self._batch, appends, state=state)
        )
        reach(PUBLISHED)
        self._batch += 1
        if moved:
            self.committed = position
        self._progress(len(records))

    def _appends(self, records: Sequence[SourceRecord]) -> list[Append]:
        now = int(time.time() * 1000)
        by_topic: dict[str, list[ProducerRecord]] = {}
        for record in records:
            try:
                key, value = self._converts[record.topic]
            except KeyError:
                key, value = self._bound(record.topic)
            try:
                row = ProducerRecord(
                    key(record.key_schema, record.key),
                    value(record.value_schema, record.value),
                    record.timestamp,
                    record.headers,
                    record.partition,
                )
            except Exception as error:  # noqa: BLE001  (a serde of a user may raise anything)
                self._failed(RecordFailure(record, "serialization error", error))
                continue
            by_topic.setdefault(record.topic, []).append(row)
        return [
            Append(topic, partition, block)
            for topic, rows in by_topic.items()
            for partition, block in self._routed(topic, rows, now)
        ]

    def _routed(self, name: str, rows: list[ProducerRecord], now: int) -> list[tuple[int, Any]]:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = self._topic(name)
        return list(route(topic, rows, None, self._batch % topic.partitions, now))

    def _topic(self, name: str) -> Topic:
        """Returns a topic; creates it if it does not exist."""
        log, spec = self._environment.log, self._spec
        try:
            return log.topic(name)
        except UnknownTopicError:
            config = {**spec.topic_config, **spec.source.topics().get(name, {})}
            return log.create_topic(name, spec.partitions, config, exist_ok=True)

    def _bound(self, topic: str) -> tuple[Convert, Convert]:
        registry = self._environment.registry
        key = self._spec.key.bind(SerdeContext(topic, is_key=True, registry=registry))
        value = self._spec.value.bind(SerdeContext(topic, is_key=False, registry=registry))
        self._converts[topic] = key, value
        return key, value

    def _failed(self, failure: RecordFailure) -> None:
        """Drops and counts a record, or ends the task, as the connector's ``on_error`` says."""
        error = failure.error
        if self._spec.on_error == "fail" or not isinstance(error, Exception) or getattr(error, "may_pass", False):
            if getattr(error, "may_pass", False):
                raise error
            record: SourceRecord = failure.record
            where = (
                f"transforms {function_place(self._spec.transforms)}"
                if failure.reason == "transform error"
                else ("the converters")
            )
            raise ConnectorError(
                f"a record for topic {record.topic} is refused by {where}: {reason_of(error)}",
                hint="to drop and count such records, give the connector on_error='continue'",
            ) from error
        self.tally.drop(failure.reason)


def _decoded(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)
