"""Keeps the log small while an application runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection

from millstream.errors import LogError
from millstream.log.api import Cleanup, Log, Offsets

_WORTHWHILE = 10_000
"""So many records must have come to a topic, besides as many as it had, before it is compacted again."""

_PATIENCE = 1.0
"""How many seconds a round may take when the application ends."""


class Upkeep:
    """Deletes what topics need not keep any longer, at intervals, in a thread of its own.

    Args:
        log: The log.
        application: Whose records must be there for as long as a batch that has them may be run again.
        interval_ms: How long to wait between two rounds; 0 for no rounds at all.
        first: Where the application begins to read, in what it has never read.
        passing: The topics whose records nobody needs once they were read.
    """

    def __init__(
        self, log: Log, application: str, interval_ms: int, first: Offsets, passing: Collection[str] = ()
    ) -> None:
        self._log = log
        self._application = application
        self._interval = interval_ms / 1000
        self._passing = passing
        published = log.applications.published(application)
        read = {} if published is None else published.offsets
        unread = {place: offset for place, offset in first.items() if place not in read}
        if unread and log.cleanup is not None:
            log.cleanup.hold(application, unread, also=True)
        self._last: Offsets = {**first, **read}
        self._held: Offsets = {}
        self._compacted: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._rounds, name=f"millstream-upkeep-{application}", daemon=True)

    def start(self) -> None:
        """Begins, unless it is switched off."""
        if self._interval:
            self._thread.start()

    def stop(self) -> None:
        """Ends after the round that it is in. One that takes long is not waited for: it fails when the log is shut."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    def batch(self, offsets: Offsets) -> None:
        """Takes note of a batch: how far it has read. Only the last one can be run again."""
        with self._lock:
            self._held = {**dict.fromkeys(offsets, 0), **self._last}
            self._last = {**self._last, **offsets}

    def round(self) -> None:
        """Deletes what nobody needs any longer, and what retention and compaction allow."""
        with self._lock:
            held = self._held
        cleanup = self._log.cleanup
        if held:
            if cleanup is not None:
                cleanup.hold(self._application, held)
            self._log.delete_records({place: offset for place, offset in held.items() if place[0] in self._passing})
        if cleanup is None:
            return
        cleanup.apply_retention()
        for topic in self._log.topics():
            if "compact" in topic.config.get("cleanup.policy", ""):
                self._compact(cleanup, topic.name)

    def _compact(self, cleanup: Cleanup, topic: str) -> None:
        count = sum(part.records for part in self._log.sizes(topic))
        if count < 2 * self._compacted.get(topic, 0) + _WORTHWHILE:
            return
        self._compacted[topic] = count - cleanup.compact(topic).records

    def _rounds(self) -> None:
        while not self._ended.wait(self._interval):
            with contextlib.suppress(LogError):  # a topic is gone, the disk is full: the next batch will tell
                self.round()
