"""The log of a Kafka cluster: the protocols of `millstream.log.api` on its brokers."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from millstream.config.secrets import reveal
from millstream.errors import BrokerError, LogError, UnknownTopicError
from millstream.log.api import (
    Append,
    Offsets,
    Produced,
    ProducerRecord,
    Ranges,
    Stored,
    Topic,
    check_partition,
)
from millstream.log.kafka import groups, positions, topics
from millstream.log.kafka.applications import KafkaApplications, KafkaViews
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.following import KafkaFollower
from millstream.log.kafka.reading import SAMPLING, Readers
from millstream.log.kafka.transactions import Transactions
from millstream.log.kafka.views import LocalViews
from millstream.log.opening import Cluster, LogLocation
from millstream.log.producing import route

_POLL = 0.02
_PATIENCE = 3.0
_INTERNAL_CONFIG = {"message.timestamp.type": "CreateTime"}
"""Applications need the timestamps that they have assigned to their records."""

_SAMPLED = 16
_TIMES_KEPT = 10_000
_AT_ONCE = 8


class KafkaLog:
    """A `Log` of a Kafka cluster.

    Args:
        cluster: The cluster.
        directory: The data directory of this machine.

    Attributes:
        applications: Publications and recorded state of applications.
        views: The views of stores, on this machine.
        cleanup: None: brokers apply retention and compaction.
        changes: None: each follower receives the records of its partitions alone.
    """

    cleanup: Final = None
    changes: Final = None

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._clients = clients = Clients(_revealed(cluster.clients), cluster.timeout)
        self._readers = Readers(clients, _revealed(cluster.consumer))
        self._samples = Readers(clients, {**_revealed(cluster.consumer), **SAMPLING})
        self._producer = _revealed(cluster.producer)
        self._local_views = LocalViews(LogLocation(directory, cluster).views)
        self.applications = KafkaApplications(clients, self._readers, self._local_views, self._producer, cluster.topics)
        self.views = KafkaViews(self._local_views, self.applications)
        self._times: dict[tuple[str, int, int], int] = {}
        self._calls = itertools.count()
        self._lock = threading.RLock()
        self._plain: Transactions | None = None

    def connect(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Waits until a broker answers."""
        deadline = time.monotonic() + seconds
        reported = False
        while True:
            try:
                self._clients.connect(min(_PATIENCE, seconds))
                return
            except BrokerError as error:
                if not error.may_pass:
                    raise
                if not reported:
                    tell(f"waiting for the Kafka broker at {self._clients.servers}")
                    reported = True
                if time.monotonic() > deadline:
                    raise

    # ----- topics ------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        internal: bool = False,
        exist_ok: bool = False,
    ) -> Topic:
        """Creates a topic, or returns the existing one with `exist_ok`.

        An internal topic gets the configured settings of internal topics.
        """
        if exist_ok:
            try:
                return topics.find(self._clients, name)
            except UnknownTopicError:
                pass
        own = {**_INTERNAL_CONFIG, **self._cluster.topics} if internal else {}
        return topics.create(self._clients, name, partitions, {**(config or {}), **own})

    def topic(self, name: str) -> Topic:
        """Returns the topic of that name."""
        return topics.find(self._clients, name)

    def topics(self) -> list[Topic]:
        """Returns all topics, ordered by name."""
        return list(topics.find_all(self._clients).values())

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records."""
        topics.delete(self._clients, name)
        for readers in (self._readers, self._samples):
            readers.forget(name)
        self._times = {place: latest for place, latest in self._times.items() if place[0] != name}

    def add_partitions(self, name: str, total: int) -> Topic:
        """Increases the number of partitions."""
        return topics.add_partitions(self._clients, name, total)

    def alter_topic(self, name: str, config: Mapping[str, str | None]) -> Topic:
        """Changes keys of a topic's configuration."""
        return topics.alter(self._clients, name, config)

    # ----- records -----------------------------------------------------------------------------------------------

    def produce(self, topic: str, records: Iterable[ProducerRecord], *, partition: int | None = None) -> list[Produced]:
        """Writes records in one transaction."""
        target = topics.find(self._clients, topic)
        sticky = next(self._calls) % target.partitions
        blocks = route(target, records, partition, sticky, int(time.time() * 1000))
        if not blocks:
            return []
        bases = self.append([Append(topic, number, block) for number, block in blocks])
        written: dict[int, Produced] = {}
        for (number, block), base in zip(blocks, bases, strict=True):
            before = written.get(number, Produced(number, base, 0))
            written[number] = before._replace(count=before.count + block.count)
        return list(written.values())

    def append(self, appends: Sequence[Append]) -> list[int]:
        """Writes blocks unchanged, in one transaction."""
        with self._lock:
            names = list(dict.fromkeys(append.topic for append in appends))
            ends = positions.ends(self._clients, names, committed=False)
            if self._plain is None:
                known = names[0] if names else None
                self._plain = Transactions(self._clients, f"millstream-{uuid.uuid4()}", self._producer, known=known)
            for append in appends:
                check_partition(append.topic, len(ends[append.topic]), append.partition)
            try:
                self._plain.write(appends)
            except LogError:  # the producer may be unusable
                self._plain = None
                raise
        bases = []
        for append in appends:
            bases.append(ends[append.topic][append.partition])
            ends[append.topic][append.partition] += append.block.count
        return bases

    def starts(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Returns the offset of the first record of each partition, by topic."""
        return positions.starts(self._clients, topics)

    def ends(self, topics: Iterable[str], *, committed: bool = True) -> dict[str, list[int]]:
        """Returns the offset after the last committed record of each partition, or after the last one, by topic."""
        return positions.ends(self._clients, topics, committed=committed)

    def sizes(self, topic: str) -> list[Stored]:
        """Returns approximate numbers of records. Brokers do not report the bytes."""
        starts, ends = self.starts([topic])[topic], self.ends([topic])[topic]
        return [Stored(end - start, None) for start, end in zip(starts, ends, strict=True)]

    def read(self, topic: str, partition: int, start: int, end: int, *, max_bytes: int | None = None) -> pa.Table:
        """Returns the records with `start <= offset < end`, in order."""
        return self._readers.read(topic, partition, start, end, max_bytes)

    def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Returns the offset of the first record whose timestamp is at least the given one, by partition."""
        return positions.for_times(self._clients, times)

    def latest_times(self, ranges: Ranges) -> dict[tuple[str, int], int]:
        """Returns approximately the greatest timestamp of ranges: that of their last records."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # each mostly waits for a broker
            times = pool.map(lambda item: self._latest_time(*item[0], *item[1]), ranges.items())
            return {place: latest for place, latest in zip(ranges, times, strict=True) if latest is not None}

    def _latest_time(self, topic: str, partition: int, start: int, end: int) -> int | None:
        latest = self._times.get((topic, partition, end))
        begin, width = end, _SAMPLED
        while latest is None and begin > start:
            begin, width = max(start, end - width), width * 16
            latest = max(self._samples.read(topic, partition, begin, end)["timestamp"].to_pylist(), default=None)
        if latest is not None:
            if len(self._times) >= _TIMES_KEPT:
                self._times.clear()
            self._times[topic, partition, end] = latest
        return latest

    def follow(self) -> KafkaFollower:
        """Returns a reader of records as they are committed."""
        return KafkaFollower(self._clients, _revealed(self._cluster.consumer))

    def wait(self, positions_: Offsets, timeout: float) -> bool:
        """Waits until a partition has records at or beyond its position."""
        deadline = time.monotonic() + timeout
        specs = dict.fromkeys(positions_, positions.LATEST)
        while True:
            ends = positions.list_offsets(self._clients, specs)
            if any(ends[place] > offset for place, offset in positions_.items()):
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL, left))

    def delete_records(self, offsets: Offsets) -> None:
        """Deletes the records before these offsets."""
        topics.delete_records(self._clients, offsets)

    # ----- groups ------------------------------------------------------------------------------------------------

    def commit_offsets(self, group: str, offsets: Offsets) -> None:
        """Commits offsets of a consumer group."""
        groups.commit(self._clients, group, offsets)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the committed offsets of a consumer group."""
        return groups.committed(self._clients, group)

    def groups(self) -> list[str]:
        """Returns the names of all consumer groups."""
        return groups.names(self._clients)

    def delete_group(self, group: str) -> None:
        """Deletes a consumer group."""
        groups.delete(self._clients, group)

    def close(self) -> None:
        """Closes all clients."""
        self.applications.close()
        with self._lock:
            self._plain = None
        self._readers.close()
        self._samples.close()
        self._local_views.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _revealed(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: reveal(value) for key, value in settings.items()}
