"""The dead letters of a sink: records that cannot be written go to a topic, each once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from millstream.connect import SinkConnector
from millstream.core.records import ERROR_HEADER, Headers
from millstream.log.api import Append, Fetched, ProducerRecord, Publication
from millstream.log.producing import route
from millstream.runtime.connectors.source_task import scope_of
from millstream.runtime.connectors.task import Environment, reason_of
from millstream.text.escaping import shorten

_DONE = "offsets"


class LostRecord(NamedTuple):
    """A record that cannot be written: its place among the fetched ones, and why."""

    part: Fetched
    place: int
    reason: str
    error: BaseException


class DeadLetters:
    """Writes the dead letters of all tasks of a connector.

    The offset after the last letter of each partition is recorded with the letters. A record that is read again after
    a crash, because the target did not commit it, is not written a second time.

    Args:
        environment: What the tasks share.
        connector: The connector.
    """

    def __init__(self, environment: Environment, connector: SinkConnector) -> None:
        self._environment = environment
        self._topic = connector.dead_letter_topic
        self._scope = scope_of(environment.application, connector.name, "dead-letters")
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._application_epoch = -1
        self._batch = 0
        self._done: dict[tuple[str, int], int] = {}

    def write(self, lost: Sequence[LostRecord]) -> None:
        """Writes dead letters, unless they were written before."""
        if not lost or self._topic is None:
            return
        with self._lock:
            try:
                self._write(self._topic, lost)
            except Exception:
                self._epoch = None
                raise

    def _write(self, name: str, lost: Sequence[LostRecord]) -> None:
        self._open()
        log = self._environment.log
        topic = log.create_topic(name, 1, exist_ok=True)
        new = [one for one in lost if one.part.offsets[one.place] >= self._done.get(one.part[:2], 0)]
        if not new:
            return
        done = dict(self._done)
        for one in new:
            done[one.part[:2]] = max(done.get(one.part[:2], 0), one.part.offsets[one.place] + 1)
        rows = [_letter(one) for one in new]
        blocks = route(topic, rows, None, self._batch % topic.partitions, 0)
        assert self._epoch is not None
        log.applications.publish(
            Publication(
                self._scope,
                self._epoch,
                self._batch,
                [Append(name, partition, block) for partition, block in blocks],
                state={_DONE: msgspec.json.encode([[*place, offset] for place, offset in done.items()])},
            )
        )
        self._batch += 1
        self._done = done

    def _open(self) -> None:
        application_epoch = self._environment.epoch()
        if self._epoch is not None and application_epoch == self._application_epoch:
            return
        applications = self._environment.log.applications
        self._epoch = applications.acquire(self._scope, application_epoch=application_epoch)
        self._application_epoch = application_epoch
        published = applications.published(self._scope)
        self._batch = 0 if published is None else published.batch + 1
        data = applications.state(self._scope).get(_DONE)
        self._done = {} if data is None else {(t, p): offset for t, p, offset in msgspec.json.decode(data)}


def _letter(lost: LostRecord) -> ProducerRecord:
    part, place = lost.part, lost.place
    own: Headers = () if part.headers is None else part.headers[place]
    facts = {
        "exception": f"{type(lost.error).__module__}.{type(lost.error).__qualname__}",
        "message": shorten(reason_of(lost.error)),
        "topic": part.topic,
        "partition": str(part.partition),
        "offset": str(part.offsets[place]),
    }
    headers = tuple((f"{ERROR_HEADER}{name}", text.encode(errors="backslashreplace")) for name, text in facts.items())
    return ProducerRecord(part.keys[place], part.values[place], part.timestamps[place], (*own, *headers))
