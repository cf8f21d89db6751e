"""Execution in micro-batches: a Spark query reads and processes, the driver commits each batch."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from millstream.errors import MillstreamError, OffsetOutOfRangeError, QueryError, RunError
from millstream.log.api import Scope
from millstream.runtime.batches.control import Control, PlannerSettings
from millstream.runtime.batches.pacing import Pacing
from millstream.runtime.batches.task_schedule import TaskSchedule
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.execution import Observer, Progress, unless_stopped
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.publish.committer import Committer, error_of
from millstream.runtime.spark.java import has_ended
from millstream.runtime.spark.session import check_reachable, cores_of, import_pyspark, open_session, where_to_look
from millstream.runtime.start.prepared_application import PreparedApplication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.runtime.spark.query import Query

T = TypeVar("T")

_POLL = 0.02
_RETRIES_EVERY = 1.0
"""Seconds between two requests to Spark for failed tasks."""

_GRACE = 6.0
"""Seconds that a batch may take to end when the application stops. The whole stop may take ten seconds."""

_SAMPLED = 1000
_SAMPLE = 100
_SAMPLE_BYTES = 1024**2


class MicroBatchExecution:
    """Runs an application as one streaming query of Spark. Implements `Execution`.

    Args:
        application: The application.
        metrics: The figures of its batches, from which the size of the next batch is learned.
        until_caught_up: Read no input beyond its end of now.
        clock: The clock for durations. Batch times come from the planner, which Spark runs in another process.
    """

    def __init__(
        self,
        application: PreparedApplication,
        metrics: Metrics,
        *,
        until_caught_up: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._application = application
        self._metrics = metrics
        self._clock = clock
        config, subscription = application.program.config, application.subscription
        inputs = [t for t in subscription.topics if t not in subscription.internal and t not in subscription.restores]
        self._pacing = Pacing(
            config["target.batch.ms"],
            config["min.batch.records"],
            config["max.batch.records"],
            config["max.batch.bytes"],
            max((self._record_bytes(topic) for topic in inputs), default=0.0),
        )
        self.until = application.log.ends(inputs) if until_caught_up else None
        self.control = Control(application.directory / "control.json")
        self.settings = PlannerSettings(self._pacing.records, due=0, until=self.until)
        self.control.write(self.settings)
        self._changing = threading.Lock()
        self._schedule = TaskSchedule(0)
        self._query: Query | None = None
        self._observer: Observer | None = None
        self._stopping = threading.Event()
        self._batch_failure: MillstreamError | None = None
        self._query_was_lost = False
        self._checked_batches = -1
        self._retries_read = 0.0
        self._where_to_look = f"look at {application.directory / 'spark.log'}"

    def _record_bytes(self, topic: str) -> float:
        """Estimates the size of the records of a topic from a sample of those that are read first."""
        log = self._application.log
        starts, ends = log.starts([topic])[topic], log.ends([topic])[topic]
        for partition, (first, end) in enumerate(zip(starts, ends, strict=False)):
            start = max(first, self._metrics.position(topic, partition))
            if end - start >= _SAMPLED:
                with contextlib.suppress(OffsetOutOfRangeError):  # deleted just now
                    sample = log.read(topic, partition, start, start + _SAMPLE, max_bytes=_SAMPLE_BYTES)
                    return float(sample.nbytes / max(len(sample), 1))
        return 0.0

    # ----- Execution -------------------------------------------------------------------------------------------

    def start(self, observer: Observer, stopping: threading.Event) -> bool:
        """Opens a session of Spark, and starts the query."""
        import_pyspark()
        from millstream.runtime.spark.query import Query  # noqa: PLC0415  (it imports PySpark)
        from millstream.runtime.spark.source import Before  # noqa: PLC0415

        application = self._application
        self._observer, self._stopping = observer, stopping
        self._batch_failure = None
        was_lost, self._query_was_lost = self._query_was_lost, False
        self.control.clear()
        with observer.preparing("starting Spark"):
            session = unless_stopped(self._open_session, stopping)
        if session is None:
            return False
        self._where_to_look = where_to_look(session)
        cores = cores_of(session)
        committer = Committer(application.program, application.log, application.epoch, application.base)
        self._schedule = TaskSchedule(application.program.tasks if application.program.placement.tasks else 0)
        self.change(bounds=committer.bounds, held=committer.held, due=0, awake=None)
        self._checked_batches = -1

        def commit(batch: int, payloads: list[bytes], seconds: float) -> None:
            try:
                self._commit(observer, committer, batch, payloads, seconds, cores)
            except MillstreamError as error:
                self._batch_failure = error
                raise

        at_most_once = application.program.config["processing.guarantee"] == "at_most_once"
        with observer.preparing("starting the query"):
            self._query = Query(
                session,
                application.program,
                application.first,
                application.directory / "control.json",
                application.checkpoint,
                commit,
                Before(application.started_batch() if at_most_once else None, was_lost),
            )
        return True

    def poll(self) -> None:
        """Waits a moment, and reports retries of Spark and of task hosts, and a broker that does not answer."""
        query, observer = self._running()
        if query.spark.isActive:
            if not self._stopping.wait(_POLL):
                observer.blocked(self.control.read_trouble())
                self._report_retries(query, observer)
            return
        self._report_retries(query, observer, now=True)
        raise self._failure(query)

    def is_caught_up(self) -> bool:
        """Whether the input of the start was processed, and all records of internal topics.

        Only a batch can change that. It is looked up once after each batch, because it reads the end of every
        partition.
        """
        batches = self._metrics.batches
        if self._metrics.waiting or batches == self._checked_batches:
            return False
        self._checked_batches = batches
        application = self._application
        published = application.log.applications.published(Scope(application.id))
        read = {} if published is None else published.offsets

        def reaches(bounds: dict[str, list[int]]) -> bool:
            return all(
                read.get((topic, partition), self._metrics.position(topic, partition)) >= end
                for topic, ends in bounds.items()
                for partition, end in enumerate(ends)
            )

        internal = sorted(application.subscription.internal)
        return reaches(self.until or {}) and reaches(application.log.ends(internal))

    def pause(self) -> None:
        """Has the planner plan no batch."""
        self.change(paused=True)

    def resume(self) -> None:
        """Has the planner plan batches again."""
        self.change(paused=False)

    def drain(self) -> None:
        """Waits until the planner has paused: then no batch runs, and none will begin."""
        query, _observer = self._running()
        self.change(paused=True)
        deadline = self._clock.monotonic() + _GRACE
        while query.spark.isActive and self._clock.monotonic() < deadline:
            if self.control.is_acknowledged(self.settings):
                break
            self._clock.sleep(_POLL)
        if not query.spark.isActive and self._batch_failure is not None:
            raise self._batch_failure

    def close(self) -> None:
        """Stops the query and its task hosts. The session stays, for other applications of the process."""
        query, self._query = self._query, None
        if query is not None:
            query.stop()

    def explain(self, error: Exception) -> MillstreamError | None:
        """Recognises that Spark's Java process has ended."""
        if isinstance(error, ConnectionError) or has_ended():
            return RunError(
                "the application stopped: Spark's Java process has ended",
                hint="if it ran out of memory, see spark.driver.memory and max.batch.bytes; " + self._where_to_look,
            )
        return None

    # ----- batches ---------------------------------------------------------------------------------------------

    def _commit(
        self,
        observer: Observer,
        committer: Committer,
        batch: int,
        payloads: list[bytes],
        seconds: float,
        cores: int,
    ) -> None:
        started = time.perf_counter()
        results = committer.commit(batch, payloads)
        observer.published(Progress(batch, results, seconds, time.perf_counter() - started, cores))
        metrics = self._metrics
        is_full = metrics.last_records >= self._pacing.records // 2  # else there is no backlog
        unread = sum(metrics.lag().values()) if is_full else 0
        self._pacing.learn(metrics.last_records, metrics.last_seconds, metrics.last_work, metrics.last_bytes, unread)
        self.change(
            records=self._pacing.records,
            bounds=committer.bounds,
            held=committer.held,
            **self._schedule.changes(results),
        )

    def change(self, **changes: Any) -> None:
        """Changes settings of the planner."""
        with self._changing:
            settings = msgspec.structs.replace(self.settings, **changes)
            if settings != self.settings:
                self.settings = msgspec.structs.replace(settings, number=settings.number + 1)
                self.control.write(self.settings)

    # ----- Spark -----------------------------------------------------------------------------------------------

    def _running(self) -> tuple[Query, Observer]:
        assert self._query is not None
        assert self._observer is not None
        return self._query, self._observer

    def _open_session(self) -> SparkSession:
        application = self._application
        session, _started = open_session(application.program.config, application.directory, application.checkpoint)
        check_reachable(session, application.program.log)
        return session

    def _report_retries(self, query: Query, observer: Observer, *, now: bool = False) -> None:
        for line in self.control.read_retries():
            observer.retried(line)
        if now or self._clock.monotonic() - self._retries_read >= _RETRIES_EVERY:
            for line in query.failed_tasks.new():
                observer.retried(line)
            self._retries_read = self._clock.monotonic()

    def _failure(self, query: Query) -> MillstreamError:
        """Returns the failure of a query that has ended: of the commit, of the planner, or of Spark."""
        if self._batch_failure is not None:
            return self._batch_failure
        failure = self.control.failure()
        if failure is not None:
            return error_of(failure)
        self._query_was_lost = True
        cause = query.why_it_ended()
        reason = ", and does not say why" if cause is None else f": {cause}"
        return QueryError(f"Spark stopped the query{reason}", hint=self._where_to_look)
