"""The publications of a worker: everything that its tasks have done since the last one.

- ``exactly_once``: a publication is one transaction.
- ``at_least_once``: outputs are sent after each step of the worker. At intervals, the worker sends changelogs, waits
  until all is written, and then writes the task records; the embedded log takes both in one transaction.
- ``at_most_once``: records are processed only after their offsets were published: a publication has the results of the
  records before, and the offsets behind those that come next.
"""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import NamedTuple

from millstream.core.failpoints import declare, reach
from millstream.log.api import Publication
from millstream.runtime.real_time.global_tables import GlobalTables
from millstream.runtime.real_time.hosted_task import HostedTask
from millstream.runtime.real_time.messages import Sent, TaskReport
from millstream.runtime.real_time.publishing import Collected, Collector, measure
from millstream.runtime.real_time.task import RealTimeTask
from millstream.runtime.real_time.task_inputs import InputKey
from millstream.runtime.real_time.task_record import topic_of
from millstream.runtime.real_time.task_state import Snapshot
from millstream.runtime.real_time.worker_context import WorkerContext
from millstream.runtime.real_time.worker_rounds import WorkerRounds

SENT = declare("worker.sent")
FLUSHED = declare("worker.flushed")
HANDED_OVER = declare("worker.handed-over")
PUBLISHED = declare("worker.published")
STORED = declare("worker.stored")

_LARGE = 200_000
"""The number of records taken, or of outputs, after which a publication does not wait for its time."""

_BUSY_WAIT = 0.001
"""Seconds to wait at once for a publication in progress that delays the next one."""

_WEIGHT = 0.2
"""The weight of the last publication in the moving average of their durations."""

_MOST_LEAD = 0.25
"""The part of the commit interval by which a publication begins earlier at most."""

_MOST_UNSTORED = 20
"""The number of publications that may wait for their local page stores: the disk may be slow for a moment."""

_GROUP_OFFSETS_EVERY = 1.0
_SIZES_EVERY = 1.0
_DELETE_EVERY = 10.0
"""Seconds between two deletions of records of changelogs."""


class _Reports(NamedTuple):
    """The progress of the tasks, and that of global tables."""

    tasks: list[TaskReport]
    tables: list[tuple[str, int, int]]


class _Durations(NamedTuple):
    """How long the records of a publication took to process, and when the first of them were read."""

    processing: float
    since: float | None


class Publications:
    """Publishes at intervals, in a thread of its own.

    Args:
        context: What the parts of the worker share.
        tables: The global tables of the worker.
        rounds: The tasks of the worker, and their rounds.

    Attributes:
        taken: The number of records that the tasks have taken since the last publication.
        seconds: The time that they took to process them.
        since: When the first of these records were read, on the clock for durations.
    """

    def __init__(self, context: WorkerContext, tables: GlobalTables, rounds: WorkerRounds) -> None:
        self._context = context
        self._log = context.log
        self._clock = context.clock
        self._globals = tables
        self._rounds = rounds
        self._publishing = 0.0
        self._interval: float = context.program.config["commit.interval.ms"] / 1000
        self._is_embedded = context.program.log.cluster is None
        self._scope = context.scope
        self._record_topic = topic_of(context.scope.application)
        self._epoch = 0
        self._batch = 0
        self._collector = Collector(context.program, context.assignment.worker, context.count_of)
        self._last_commit = self._last_group_offsets = self._last_deletion = context.clock.monotonic()
        self._group_offsets: dict[InputKey, int] = {}
        self._reported = _Reports([], [])
        self._tables: list[tuple[str, int, int]] = []
        self._last_sizes = -math.inf
        self._measured: int | None = None
        guarantee = context.program.config["processing.guarantee"]
        self._sends_at_once = guarantee == "at_least_once"
        self._claims = guarantee == "at_most_once"
        self._claimed: dict[HostedTask, dict[InputKey, int]] = {}
        self.taken = 0
        self.seconds = 0.0
        self.since = 0.0
        self._stored: deque[tuple[float, int]] = deque()
        self._publisher = context.threads.serial(f"{self._scope}: publisher")
        self._storer = context.threads.serial(f"{self._scope}: local stores", _MOST_UNSTORED)

    def begin(self) -> None:
        """Fences earlier instances of the worker, before anything is read."""
        applications = self._log.applications
        self._epoch = applications.acquire(self._scope, application_epoch=self._context.assignment.epoch)
        published = applications.published(self._scope)
        self._batch = 0 if published is None else published.batch + 1

    def add(self, task: RealTimeTask) -> None:
        """Notes the offsets at which a task begins."""
        self._collector.begin(task)
        self._measured = None  # the sizes of its restored stores are reported next

    @property
    def collects(self) -> bool:
        """Whether results wait for a publication."""
        return not self._sends_at_once

    def check(self) -> None:
        """Raises the error of a publication that has failed, or of a local page store."""
        self._publisher.check()
        self._storer.check()

    @property
    def seconds_left(self) -> float:
        """Seconds until the next publication, or until the publication in progress may have ended."""
        seconds = self._seconds_left()
        return _BUSY_WAIT if seconds <= 0 and self._publisher.is_busy else max(0.0, seconds)

    def _seconds_left(self) -> float:
        """Seconds until the next publication is due: so early that it usually ends within the commit interval."""
        lead = min(self._publishing, self._interval * _MOST_LEAD)
        return self._last_commit + self._interval - lead - self._clock.monotonic()

    @property
    def is_claiming(self) -> bool:
        """Whether buffered records wait for the publication of their offsets."""
        return self._claims and any(self._claimed.get(task) != self._inputs(task) for task in self._rounds.tasks)

    def may_take(self) -> bool:
        """Whether the tasks may take the buffered records: at most once, after their offsets were published."""
        if not self.is_claiming:
            return True
        if self._seconds_left() > 0:
            return False
        self._hand_over()
        self._publisher.wait()
        return True

    @staticmethod
    def _inputs(task: HostedTask) -> dict[InputKey, int]:
        assert task.running is not None
        return task.running.inputs

    def send_outputs(self) -> None:
        """Sends outputs, if readers need not wait for the publication."""
        if self._sends_at_once:
            appends = self._collector.take_outputs(self._rounds.tasks)
            if appends:
                self._log.applications.send(self._scope, self._epoch, appends)
                reach(SENT)

    def publish_if_due(self) -> None:
        """Publishes if it is time, or if there are many records."""
        if self.taken > _LARGE or sum(task.produced for task in self._rounds.running()) > _LARGE:
            self._hand_over()
        elif not self._publisher.is_busy and self._seconds_left() <= 0:
            lacks_offsets = self._are_group_offsets_due and self._lacks_group_offsets()
            if lacks_offsets or self._is_dirty:
                self._hand_over()
            else:
                self._report_progress()
        self._report_sizes()

    @property
    def _is_dirty(self) -> bool:
        """Whether there is something to publish."""
        return self._reports_globals or any(map(self._is_changed, self._rounds.tasks))

    @property
    def _are_group_offsets_due(self) -> bool:
        return self._clock.monotonic() >= self._last_group_offsets + _GROUP_OFFSETS_EVERY

    def _lacks_group_offsets(self) -> bool:
        """Whether the offsets of the consumer group are behind; what their publication needs is marked as changed."""
        self._mark_passed()
        lacks = not self._is_embedded and self._group_offsets != self._collector.offsets
        task = next(self._rounds.running(), None)  # there is none while all are restored
        if lacks and task is not None:
            task.is_dirty = True  # its task record is the marker of the publication
        return lacks

    def _mark_passed(self) -> None:
        """Marks tasks as changed that have passed control records at the ends of partitions.

        So the group, the task records and the deletion of internal records have the same offsets. The embedded log has
        no control records.
        """
        for task in () if self._is_embedded else self._rounds.running():
            if self._collector.is_behind(task):
                task.is_dirty = True

    def _is_changed(self, task: HostedTask) -> bool:
        """Whether a task needs a new task record."""
        assert task.running is not None
        return task.running.is_dirty or (self._claims and self._claimed.get(task) != self._inputs(task))

    @property
    def _reports_globals(self) -> bool:
        """Whether all workers have applied changes of global tables, and this worker is the one that commits it."""
        return self._context.assignment.worker == 0 and self._context.link.orders().tables != self._tables

    def _hand_over(self, *, is_last: bool = False) -> None:
        """Gives everything that the tasks have done since the last publication to the publisher."""
        self._publisher.wait()
        now = self._clock.monotonic()
        claims = self._claims and not is_last
        # Letters of global tables are published with the offsets of their records.
        has_offsets = is_last or self._is_embedded or self._are_group_offsets_due or self._reports_globals
        if has_offsets:
            self._mark_passed()
        dirty = [task for task in self._rounds.tasks if self._is_changed(task)]
        number = (self._epoch, self._batch)
        collected = self._collector.collect(dirty, self._clock.time_ms(), number, claims=claims)
        self._claimed.update({task: self._inputs(task) for task in dirty if claims})
        if self._reports_globals:
            self._tables = self._context.link.orders().tables
            self._collector.add_globals(self._globals, self._tables, collected)
        snapshots = {task: snapshot for task in dirty if (snapshot := task.state.snapshot(now)) is not None}
        offsets: dict[InputKey, int] = {}
        if has_offsets:
            offsets, self._last_group_offsets = self._collector.offsets, now
            self._group_offsets = offsets
        publication = Publication(
            scope=self._scope,
            epoch=self._epoch,
            batch=self._batch,
            appends=[*collected.outputs, *collected.changes, *collected.records],
            offsets=offsets,
            views=collected.views,
            marker=(self._record_topic, dirty[0].slot) if dirty else None,
        )
        self._batch += 1
        reports = self._reports()
        durations = _Durations(self.seconds, self.since if self.taken else None)
        self._last_commit, self.taken, self.seconds = now, 0, 0.0
        reach(HANDED_OVER)
        self._publisher.submit(partial(self._publish, publication, collected, dirty, snapshots, reports, durations))

    def _publish(
        self,
        publication: Publication,
        collected: Collected,
        dirty: list[HostedTask],
        snapshots: dict[HostedTask, Snapshot],
        reports: _Reports,
        durations: _Durations,
    ) -> None:
        """Publishes, reports, and has local page stores written; in the thread of the publisher."""
        started = self._clock.monotonic()
        if self._sends_at_once and not self._is_embedded:
            self._write(publication, collected)
        else:
            self._log.applications.publish(publication)
        committed = self._clock.monotonic()
        collected.result.figures["committed"] = self._clock.time_ms()
        if durations.since is not None:
            collected.result.figures["latency"] = committed - durations.since
        self._publishing += _WEIGHT * (committed - started - self._publishing)
        reach(PUBLISHED)
        ends = self._log.ends(sorted({topic for topic, _partition in collected.least}), committed=False)
        sent = [Sent(topic, number, ends[topic][number], least) for (topic, number), least in collected.least.items()]
        self._reported = reports
        self._context.send(
            self._rounds.requests,
            tasks=reports.tasks,
            tables=reports.tables,
            sent=sent,
            result=collected.result,
            seconds=durations.processing,
            commit_seconds=committed - started,
        )
        # Before the next publication, so that the ends are those of this one.
        unstored = [(task, snapshots.get(task), self._ends_after(task, snapshots.get(task))) for task in dirty]
        if self._is_deletion_due:
            self._last_deletion = self._clock.monotonic()
        self._storer.submit(partial(self._store, unstored))

    def _write(self, publication: Publication, collected: Collected) -> None:
        """Writes changelogs and task records without a transaction: the records once everything before is written."""
        applications = self._log.applications
        applications.send(self._scope, self._epoch, [*collected.outputs, *collected.changes])
        applications.flush(self._scope, self._epoch)
        reach(FLUSHED)
        applications.send(self._scope, self._epoch, collected.records)
        applications.flush(self._scope, self._epoch, publication.offsets)

    @property
    def _is_deletion_due(self) -> bool:
        return self._clock.monotonic() >= self._last_deletion + _DELETE_EVERY

    def _ends_after(self, task: HostedTask, snapshot: Snapshot | None) -> dict[str, int]:
        """Returns the ends of the changelogs of a task if they are needed: they are a request to the broker."""
        if (snapshot is not None and snapshot.is_advance) or (self._is_deletion_due and task.state.has_expiry):
            return self._changelog_ends(task)
        return {}

    def _store(self, unstored: list[tuple[HostedTask, Snapshot | None, dict[str, int]]]) -> None:
        """Writes local page stores, and deletes records of changelogs whose rows have expired; in their own thread."""
        for task, snapshot, ends in unstored:
            unneeded = task.state.committed(ends)
            if snapshot is not None:
                self._write_local(task, snapshot, ends)
            if unneeded:
                self._log.delete_records({(topic, task.id.partition): end for topic, end in unneeded.items()})
        reach(STORED)

    def _write_local(self, task: HostedTask, snapshot: Snapshot, ends: dict[str, int]) -> None:
        """Writes the local page store of a task, and notes the time and the size for the metrics."""
        started = self._clock.monotonic()
        task.state.write(snapshot, ends)
        size = sum(len(entry.value or b"") for entry in snapshot.entries.values())
        self._stored.append((self._clock.monotonic() - started, size))

    def _changelog_ends(self, task: HostedTask) -> dict[str, int]:
        rows = self._log.ends([task.state.changelog_of(spec) for spec in task.specs.values()], committed=False)
        return {topic: row[task.id.partition] for topic, row in rows.items()}

    def _report_sizes(self, *, is_last: bool = False) -> None:
        """Reports the sizes of stores after a publication, but not often: counting rows may take long."""
        now = self._clock.monotonic()
        if self._measured == self._batch or not (is_last or now >= self._last_sizes + _SIZES_EVERY):
            return
        self._measured, self._last_sizes = self._batch, now
        sizes = measure(self._context.assignment.worker, self._rounds.tasks)
        stored = [self._stored.popleft() for _ in range(len(self._stored))]  # the storer may add more meanwhile
        if stored:
            seconds, written = (float(sum(column)) for column in zip(*stored, strict=True))
            sizes.figures.update({"checkpoint.seconds": seconds, "checkpoint.bytes": written})
        self._context.send(self._rounds.requests, sizes=sizes)

    def _report_progress(self) -> None:
        """Reports progress that needs no publication, such as the end of an input."""
        reports = self._reports()
        if reports != self._reported:
            self._reported = reports
            self._context.send(self._rounds.requests, tasks=reports.tasks, tables=reports.tables)

    def _reports(self) -> _Reports:
        return _Reports(self._rounds.reports(), self._globals.offsets())

    def publish_all(self) -> None:
        """Publishes what is left, before the worker ends."""
        self._claimed.clear()  # the last task records have the offsets of what was taken
        if self._lacks_group_offsets() or self._is_dirty:
            self._hand_over(is_last=True)
        self._publisher.wait()
        self._storer.wait()
        self._log.applications.wait_until_visible(self._scope, self._epoch)
        for task in self._rounds.tasks:
            snapshot = task.state.snapshot(self._clock.monotonic(), force=True)
            if snapshot is not None:
                self._write_local(task, snapshot, self._changelog_ends(task))
        self._report_sizes(is_last=True)

    def close(self) -> None:
        """Ends the threads, after the publication in progress."""
        self._publisher.close()
        self._storer.close()
