"""Views on a Kafka cluster: the driver derives them from changelogs.

A view trails the topics by a moment, and never leads: only committed records are read. The offsets up to which a view
follows a changelog are in the database of the view, so each record is applied once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import NamedTuple

from millstream.engine.contracts import obeys
from millstream.errors import LogError, OffsetOutOfRangeError, SchemaError
from millstream.log.api import Fetched, Follower, FollowingViews, Log
from millstream.runtime.program.program import Program
from millstream.stages.subtopology import changelog_topic
from millstream.state.paged.history import versions_put
from millstream.state.spec import NO_TIMESTAMP, StoreSpec
from millstream.views.changes import RowChange, ViewChange, change_of, row_time

_POLL = 0.05
_PAUSE = 1.0
_NO_TIME = -1


class _Followed(NamedTuple):
    """A store that has a view, and the topic that its view follows."""

    spec: StoreSpec
    is_source: bool


class ViewFollower:
    """Applies changelogs to views, in a thread of its own.

    Args:
        program: The application.
        log: Its log.
        views: The views.
    """

    def __init__(self, program: Program, log: Log, views: FollowingViews) -> None:
        self._log = log
        self._views = views
        self._application = program.topology.application_id
        tables = {table.store.name: table.topic for table in program.topology.global_tables}
        # The topic of a table may have records that violate its contract, and are not in the table.
        self._obeys = {t.topic: obeys(t) for t in program.topology.global_tables if t.contract is not None}
        self._stores: dict[str, _Followed] = {}
        for spec in program.topology.stores:
            if program.has_view(spec):
                topic = tables.get(spec.name, changelog_topic(self._application, spec))
                self._stores[topic] = _Followed(spec, spec.name in tables)
        self._times: dict[tuple[str, int], int] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Applies the records that exist now.

        Args:
            tell: Called with a message if views are made anew.
        """
        if not self._stores:
            return
        follower = self._log.follow()
        try:
            self._begin(follower, tell)
            ends = self._log.ends(self._stores)
            left = {(topic, number): end for topic, row in ends.items() for number, end in enumerate(row)}
            while any(follower.position(*place) < end for place, end in left.items()):
                self._step(follower)
        finally:
            follower.close()

    def start(self) -> None:
        """Starts the thread."""
        if self._stores and self._thread is None:
            self._ended.clear()
            name = f"millstream-{self._application}-views"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Applies what is committed by now, and ends the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            follower = self._log.follow()
            try:
                self._begin(follower, lambda _message: None)
                while not self._ended.is_set():
                    self._step(follower)
            except (LogError, SchemaError):  # such as a broker that does not answer: the application reports it
                self._ended.wait(_PAUSE)
            finally:
                follower.close()
        try:
            self.catch_up(lambda _message: None)
        except (LogError, SchemaError):
            return

    def _begin(self, follower: Follower, tell: Callable[[str], None]) -> None:
        """Follows the changelogs from the offsets of the views on. Without them, the views are made anew."""
        known = self._views.offsets(self._application)
        starts, ends = self._log.starts(self._stores), self._log.ends(self._stores)
        if not known:
            self._views.forget(self._application)
            if any(starts[topic] != ends[topic] for topic, followed in self._stores.items() if not followed.is_source):
                text = f"the views of application {self._application!r} are not on this machine"
                tell(f"{text}: making them from its changelogs")
        names = {followed.spec.name: topic for topic, followed in self._stores.items()}
        times = self._views.times(self._application)
        self._times = {(names[name], number): time for (name, number), time in times.items() if name in names}
        empty = []
        offsets = {}
        for topic, row in starts.items():
            spec = self._stores[topic].spec
            for number, start in enumerate(row):
                offsets[topic, number] = max(start, known.get((topic, number), start))
                if (topic, number) not in known:
                    empty.append(change_of(spec, number, [], None if spec.kind == "key-value" else _NO_TIME))
        self._views.follow(self._application, empty, {})
        follower.follow(offsets)

    def _step(self, follower: Follower) -> None:
        try:
            fetched = follower.poll(_POLL)
        except OffsetOutOfRangeError:  # a worker has deleted records whose rows have expired
            starts = self._log.starts(self._stores)
            behind = {
                (topic, number): start
                for topic, row in starts.items()
                for number, start in enumerate(row)
                if follower.position(topic, number) < start
            }
            follower.follow(behind)
            return
        if fetched:
            offsets = {(each.topic, each.partition): each.next for each in fetched}
            self._views.follow(self._application, [self._change(each) for each in fetched], offsets)

    def _change(self, fetched: Fetched) -> ViewChange:
        spec, is_source = self._stores[fetched.topic]
        rows: list[RowChange] = list(_rows(fetched, self._obeys.get(fetched.topic)))
        if spec.kind == "versioned" and not is_source:
            rows = list(versions_put(rows))
        time = None
        if spec.kind != "key-value":
            place = (fetched.topic, fetched.partition)
            before = self._times.get(place, _NO_TIME)
            time = self._times[place] = max([before, *(row_time(spec, row) for row in rows)])
        elif not spec.timestamped:
            rows = [(key, value, NO_TIMESTAMP) for key, value, _time in rows]
        return change_of(spec, fetched.partition, rows, time)


def _rows(fetched: Fetched, holds: Callable[..., bool] | None) -> Iterator[RowChange]:
    headers = repeat(()) if fetched.headers is None else fetched.headers
    for key, value, timestamp, own in zip(fetched.keys, fetched.values, fetched.timestamps, headers, strict=False):
        if key is not None and (holds is None or holds(key, value, timestamp, own)):
            yield key, value, timestamp
