"""Deletes and compacts records of the log while an application runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection

from millstream.errors import LogError
from millstream.log.api import Cleanup, Log, Offsets, Scope
from millstream.runtime.threads.api import SupervisorSteps, Threads
from millstream.runtime.threads.own import OWN_THREADS

_COMPACT_RECORDS = 10_000
"""A topic is compacted again when it has twice the records that the last compaction left, and so many more."""

_STOP_SECONDS = 1.0
"""The time that `LogCleaner.stop` waits for the round in progress."""


class LogCleaner:
    """Applies retention and compaction, and deletes records that are no longer needed, in the background.

    Args:
        log: The log.
        application: The application. The records of its last batch are kept, because the batch may run again.
        interval_ms: The interval between two rounds; 0: no rounds.
        first: The offsets at which the application starts to read partitions that it has never read.
        passing: The topics whose records are deleted once they have been read.
    """

    def __init__(
        self, log: Log, application: str, interval_ms: int, first: Offsets, passing: Collection[str] = ()
    ) -> None:
        self._log = log
        self._application = application
        self._interval = interval_ms / 1000
        self._passing = passing
        published = log.applications.published(Scope(application))
        read = {} if published is None else published.offsets
        unread = {partition: offset for partition, offset in first.items() if partition not in read}
        if unread and log.cleanup is not None:
            log.cleanup.hold(application, unread, also=True)
        self._last: Offsets = {**first, **read}
        self._held: Offsets = {}
        self._compacted: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._round = threading.Lock()

    def start(self, threads: Threads = OWN_THREADS) -> None:
        """Starts the rounds, unless the interval is 0."""
        if self._interval:
            threads.repeat(f"millstream-cleaner-{self._application}", self._rounds(), self._ended)

    def stop(self) -> None:
        """Ends after the round in progress. `stop` does not wait long for it: a round fails once the log is closed."""
        self._ended.set()
        if self._round.acquire(timeout=_STOP_SECONDS):
            self._round.release()

    def batch(self, offsets: Offsets) -> None:
        """Records the end offsets of a committed batch. Only the last batch can run again."""
        with self._lock:
            self._held = {**dict.fromkeys(offsets, 0), **self._last}
            self._last = {**self._last, **offsets}

    def round(self) -> None:
        """Deletes records that have been read from passing topics, and applies retention and compaction."""
        with self._lock:
            held = self._held
        cleanup = self._log.cleanup
        if held:
            if cleanup is not None:
                cleanup.hold(self._application, held)
            passed = {partition: offset for partition, offset in held.items() if partition[0] in self._passing}
            self._log.delete_records(passed)
        if cleanup is None:
            return
        cleanup.apply_retention()
        for topic in self._log.topics():
            if "compact" in topic.config.get("cleanup.policy", ""):
                self._compact(cleanup, topic.name)

    def _compact(self, cleanup: Cleanup, topic: str) -> None:
        count = sum(part.records for part in self._log.sizes(topic))
        if count < 2 * self._compacted.get(topic, 0) + _COMPACT_RECORDS:
            return
        self._compacted[topic] = count - cleanup.compact(topic).records

    def _rounds(self) -> SupervisorSteps:
        yield self._interval
        while not self._ended.is_set():
            with self._round, contextlib.suppress(LogError):  # a deleted topic, a full disk: the next batch reports it
                self.round()
            yield self._interval
