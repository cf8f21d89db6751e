"""Transient queries and readers: they read committed records, and leave nothing in the log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from millstream.dsl.app import App
from millstream.log import Log
from millstream.schemas.registries import ApplicationRegistry
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.lowering.transient import add_transient, result_values
from millstream.sql.planner.environment import Environment
from millstream.sql.requests.deployment import ResultRow, TopicRecord, TransientQuery
from millstream.testing import TestDriver

_RESULT = "result"
_CONFIG = {"deserialization.exception.handler": "continue"}


class LiveReader:
    """Reads topics in the order of their timestamps, as far as records have come. Implements `TopicReader`.

    Args:
        log: The log.
        topics: The topics.
        from_beginning: The topics that are read from their beginnings; the others, from their ends.
    """

    def __init__(self, log: Log, topics: Sequence[str], from_beginning: Sequence[str]) -> None:
        self._follower = log.follow()
        ends, starts = log.ends(list(topics)), log.starts(list(topics))
        self._ends = {(topic, number): end for topic, row in ends.items() for number, end in enumerate(row)}
        positions = {
            (topic, number): (starts if topic in from_beginning else ends)[topic][number]
            for topic, number in self._ends
        }
        self._follower.follow(positions)
        self._is_closed = False

    def poll(self, timeout: float) -> Sequence[TopicRecord]:
        """Returns the next committed records."""
        if self._is_closed:
            return []
        records = [
            TopicRecord(
                fetched.topic,
                fetched.partition,
                offset,
                fetched.keys[index],
                fetched.values[index],
                fetched.timestamps[index],
                () if fetched.headers is None else tuple(fetched.headers[index]),
            )
            for fetched in self._follower.poll(timeout)
            for index, offset in enumerate(fetched.offsets)
        ]
        if len({(record.topic, record.partition) for record in records}) > 1:
            records.sort(key=lambda record: record.timestamp)
        return records

    @property
    def at_end(self) -> bool:
        """Whether all records that the topics had at first have been returned."""
        return self._is_closed or all(self._follower.position(*place) >= end for place, end in self._ends.items())

    def close(self) -> None:
        """Ends the reader."""
        if not self._is_closed:
            self._is_closed = True
            self._follower.close()


class LiveTransient:
    """A transient query, in the thread that polls it. Its state is in memory. Implements `RunningTransient`.

    Args:
        log: The log.
        query: The query.
        environment: What it was planned against.
        registry: The schema registry.
    """

    def __init__(
        self, log: Log, query: TransientQuery, environment: Environment, registry: ApplicationRegistry
    ) -> None:
        app = App("sql-query", config=_CONFIG)
        lowering = QueryLowering(app, environment, SourceSerdes(query.properties))
        serde = add_transient(lowering, query.planned, _RESULT)
        self._until_now = query.until_now
        sources = {source.topic: source for source in query.planned.sources}
        whole = [topic for topic, source in sources.items() if query.from_beginning or source.is_table]
        self._driver = TestDriver(app, registry=registry.open())
        self._output = self._driver.output(_RESULT, key=bytes, value=serde)
        self._inputs = {topic: self._driver.input(topic, key=bytes, value=bytes) for topic in sources}
        self._waiting: deque[TopicRecord] = deque()
        self._reader = LiveReader(log, list(sources), whole)

    def poll(self, timeout: float) -> Sequence[ResultRow]:
        """Processes records until there is a row, or until the timeout: many records may give no row."""
        deadline = time.monotonic() + timeout
        while True:
            while self._waiting:
                record = self._waiting.popleft()
                self._inputs[record.topic].pipe(
                    record.key, record.value, timestamp=record.timestamp, headers=record.headers
                )
                rows = [ResultRow(*result_values(item.value)) for item in self._output.read_all()]
                if rows or time.monotonic() > deadline:
                    return rows
            if self.finished:
                return []
            left = deadline - time.monotonic()
            self._waiting.extend(self._reader.poll(max(0.0, left)))
            if not self._waiting and left <= 0:
                return []

    @property
    def finished(self) -> bool:
        """Whether the query has ended, and all rows were returned."""
        return not self._waiting and self._until_now and self._reader.at_end

    def stop(self) -> None:
        """Stops the query."""
        self._until_now = True
        self._waiting.clear()
        self._reader.close()
