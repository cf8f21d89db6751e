"""The workers of real-time execution, as jobs of Spark that run for as long as the application.

Each worker is a job with one task. Spark chooses the executor and notices that a process was lost. A job of its own
lets the driver start one worker again without the others: Spark ends all tasks of a job when one of them has failed too
often, and ``local[n]`` allows no failure at all.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import is_remote

from millstream.errors import ConfigError, MillstreamError, RunError, SetupError
from millstream.runtime.messages import Failure, unpack
from millstream.runtime.program.program import Program, pack_program
from millstream.runtime.real_time.channel import ChannelAddress
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.link import ReportReceiver
from millstream.runtime.real_time.messages import Assignment
from millstream.runtime.real_time.pool import WorkerPool
from millstream.runtime.spark.failures import cause_of
from millstream.runtime.spark.java import has_ended, is_stopped
from millstream.runtime.spark.session import check_reachable, known_context, open_session, where_to_look
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.worker_process import Work, WorkerProcess
from millstream.text.escaping import error_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL_SLOT_SECONDS = 60.0
"""Time to wait for free slots: short jobs of the session end soon, such as the one that starts Spark's Python, which
takes half a minute on a busy machine."""

_CLUSTER_SLOT_SECONDS = 30.0
"""The same on a cluster, whose executors may be about to start."""

_SETTLED_SECONDS = 1.0
_CLOSE_SECONDS = 6.0
_CANCEL_SECONDS = 0.5
_POLL = 0.05

_IDLE = "spark.python.worker.idleTimeoutSeconds"
_KILL_IDLE = "spark.python.worker.killOnIdleTimeout"


class SparkWorkers:
    """The workers of an application on Spark. Implements `Workers`, and `Jobs` for its pool.

    Call `open` first: the number of workers depends on the slots of the session.

    Args:
        program: The program of the application.
        directory: The directory of the application.
        retried: Called with a message when a worker was lost and starts again.
        work: Runs a worker in its process.
    """

    def __init__(self, program: Program, directory: Path, retried: Callable[[str], None], work: Work) -> None:
        self._program = program
        self._config = program.config
        self._directory = directory
        self._retried = retried
        self._work = work
        self._run = secrets.token_hex(6)
        self._numbers = itertools.count()
        self._groups: dict[int, str] = {}
        self._session: SparkSession | None = None
        self._former_context: Any = None
        self._pool: WorkerPool | None = None
        self._shipped: ShippedProgram | None = None
        self._address: ChannelAddress | None = None
        self._where_to_look = f"look at {directory / 'spark.log'}"

    # ----- Workers ---------------------------------------------------------------------------------------------

    step = "starting Spark"

    def open(self) -> int:
        """Opens a session of Spark; returns the number of its slots: of workers that can run at the same time.

        Raises:
            SetupError: The session cannot run workers.
        """
        if is_remote():
            raise SetupError(
                "real-time execution needs a session of Spark in this process, and the active one is of Spark Connect",
                hint="run the application with spark-submit, or without an active session",
            )
        self._former_context = None if SparkContext._active_spark_context else known_context()
        self._session, _started = open_session(self._config, self._directory)
        self._where_to_look = where_to_look(self._session)
        return _settled_slots(self._session)

    def start(self, assignments: Sequence[Assignment], coordinator: Coordinator, receive: ReportReceiver) -> None:
        """Starts a worker for each assignment. Their reports go to the coordinator, and then to *receive*.

        Raises:
            SetupError: The session has too few slots, or the executors cannot open the log.
        """
        session = self._opened()
        settings = dict(session.sparkContext.getConf().getAll())
        count = len(assignments)
        check_settings(settings, count)
        self._wait_for_slots(session, count)
        check_reachable(session, self._program.log)
        self._shipped = ShippedProgram(pack_program(self._program), session, self._directory)
        pool = WorkerPool(self._config, self, self._retried, self._where_to_look)
        host = "127.0.0.1"
        bind = host
        if not _is_local(session):
            host = str(settings.get("spark.driver.host", host))
            bind = str(settings.get("spark.driver.bindAddress", host))
        self._address = pool.open(assignments, coordinator, receive, bind=bind, host=host)
        self._pool = pool
        pool.poll(0)

    def orders_changed(self) -> None:
        """Has the current orders of the coordinator sent to all workers, at once."""
        if self._pool is not None:
            self._pool.orders_changed()

    def poll(self, seconds: float) -> None:
        """Watches the workers for a moment, and starts those again that were lost.

        Raises:
            MillstreamError: A worker has failed, was lost too often, or cannot be started.
        """
        assert self._pool is not None
        self._pool.poll(seconds)

    def stop(self, seconds: float) -> None:
        """Waits until all workers have ended, after the coordinator has ordered them to stop; then ends the others.

        Raises:
            MillstreamError: A worker has failed meanwhile.
        """
        if self._pool is not None:
            try:
                self._pool.stop(seconds)
            finally:
                self.close()

    def close(self) -> None:
        """Ends all workers at once. The session stays, for other applications of the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(_CLOSE_SECONDS)

    def explain(self, error: Exception) -> MillstreamError | None:
        """Recognises that Spark was stopped, or that its Java process has ended. Traces of Java are left out."""
        if self._is_stopped():
            return RunError(
                "the application stopped: Spark was stopped, and its workers with it",
                hint="stop the application before the session of Spark (spark.stop()), and start it again; if the "
                "program has not stopped Spark, " + self._where_to_look,
            )
        if isinstance(error, ConnectionError | Py4JNetworkError) or has_ended():
            return RunError(
                "the application stopped: Spark's Java process has ended",
                hint="if it ran out of memory, see spark.driver.memory; " + self._where_to_look,
            )
        if isinstance(error, Py4JError):
            cause = cause_of(str(error)) or type(error).__name__
            return RunError(f"the application stopped: Spark has failed: {cause}", hint=self._where_to_look)
        return None

    def _is_stopped(self) -> bool:
        """Whether Spark was stopped since it was opened for these workers."""
        context = known_context() if self._session is None else self._session.sparkContext
        return context is not None and context is not self._former_context and is_stopped(context)

    # ----- Jobs ------------------------------------------------------------------------------------------------

    def submit(self, worker: int) -> None:
        """Submits the job of a worker."""
        assert self._address is not None
        assert self._shipped is not None
        process = WorkerProcess(
            worker,
            self._address,
            self._shipped,
            self._directory / "workers",
            self._config["session.timeout.ms"] / 1000,
            self._work,
        )
        self._groups[worker] = f"millstream-{self._run}-{next(self._numbers)}"
        threading.Thread(
            target=self._run_job,
            args=(self._pool, worker, process, self._groups[worker]),
            name=f"millstream-worker-{worker}",
            daemon=True,
        ).start()

    def cancel(self, worker: int) -> None:
        """Cancels the job of a worker. Java then ends the process, within four seconds.

        Java does not wait: with an interrupt it would close its connection to the process, and leave the process alone.
        """
        context = self._opened().sparkContext
        _without_waiting(lambda: context.cancelJobGroup(self._groups[worker]))

    def why_waiting(self, worker: int) -> str | None:
        """Why the process of a worker has not started; None if it has, or if Spark does not answer."""
        with contextlib.suppress(Exception):  # the job reports that Spark has ended
            tracker = self._opened().sparkContext.statusTracker()
            jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self._groups[worker])]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            slots = _slots(self._opened())
            if not slots.free and not any(stage is not None and stage.numActiveTasks for stage in stages):
                return f"Spark has no free slot for it; {slots.total - slots.free} of {slots.total} are in use"
        return None

    def _run_job(self, pool: WorkerPool, worker: int, process: WorkerProcess, group: str) -> None:
        """Runs the job of a worker, in a thread of its own: it lasts as long as the worker."""
        context = self._opened().sparkContext
        try:
            context.setJobGroup(group, f"worker {worker} of {self._program.topology.application_id}")
            results = context.parallelize([worker], 1).mapPartitionsWithIndex(process).collect()
        except Exception as error:  # noqa: BLE001  (Spark raises many kinds)
            # A connection is also lost with the process of a worker, which starts again.
            if self._is_stopped() or (isinstance(error, OSError | Py4JNetworkError) and has_ended()):
                explained = self.explain(error)
                if explained is not None:
                    pool.failed(explained)
            pool.job_ended(worker, None, cause_of(str(error)) or error_text(error))
        else:
            failed = [unpack(result, tuple[int, Failure]) for result in results]
            pool.job_ended(worker, failed[0] if failed else None, None)

    # ----- Spark -----------------------------------------------------------------------------------------------

    def _opened(self) -> SparkSession:
        assert self._session is not None
        return self._session

    def _wait_for_slots(self, session: SparkSession, count: int) -> None:
        """Waits until Spark can run all workers at the same time.

        Raises:
            SetupError: Other jobs hold the slots, or there are too few.
        """
        is_local = _is_local(session)
        deadline = time.monotonic() + (_LOCAL_SLOT_SECONDS if is_local else _CLUSTER_SLOT_SECONDS)
        while (slots := _slots(session)).free < count:
            if time.monotonic() > deadline or (is_local and slots.total < count):
                held = f", and other jobs hold {slots.total - slots.free}" if slots.total > slots.free else ""
                raise SetupError(
                    f"{count} workers need a slot of Spark each: the session has {slots.total}{held}",
                    hint="lower num.workers, stop other applications of the session, or give Spark more cores",
                )
            time.sleep(_POLL)


class Slots(NamedTuple):
    """The slots of all executors: tasks that can run at the same time."""

    total: int
    free: int


def _slots(session: SparkSession) -> Slots:
    """Counts the slots. The status store is some seconds behind with running tasks, so the scheduler is asked."""
    java: Any = session.sparkContext._jsc
    executors = java.sc().statusStore().executorList(True)  # active ones only
    total = sum(int(executors.apply(number).maxTasks()) for number in range(executors.size()))
    running, used = java.sc().taskScheduler().runningTasksByExecutors().valuesIterator(), 0
    while running.hasNext():
        used += int(running.next())
    return Slots(total, max(0, total - used))


def _settled_slots(session: SparkSession) -> int:
    """The number of slots. The executors of a cluster come one by one, so it waits until no other one comes."""
    total = _slots(session).total
    if _is_local(session):
        return total
    deadline, since = time.monotonic() + _CLUSTER_SLOT_SECONDS, time.monotonic()
    while time.monotonic() < deadline and (not total or time.monotonic() - since < _SETTLED_SECONDS):
        time.sleep(_POLL)
        current = _slots(session).total
        if current != total:
            total, since = current, time.monotonic()
    return total


def _is_local(session: SparkSession) -> bool:
    return str(session.sparkContext.master).startswith("local")


def check_settings(settings: Mapping[str, str], workers: int) -> None:
    """Refuses settings of Spark with which workers cannot run for long.

    Args:
        settings: The settings of the session.
        workers: The number of workers.

    Raises:
        ConfigError: Spark may remove executors that the workers need, or ends processes that are silent.
    """
    cores = int(settings.get("spark.executor.cores", "1")) // int(settings.get("spark.task.cpus", "1"))
    least = int(settings.get("spark.dynamicAllocation.minExecutors", "0")) * cores
    if _is_true(settings, "spark.dynamicAllocation.enabled") and least < workers:
        raise ConfigError(
            f"the Spark session allocates executors dynamically, and keeps no more than {least} slots, but {workers} "
            "workers hold one each for as long as the application runs",
            hint="raise spark.dynamicAllocation.minExecutors, or disable spark.dynamicAllocation.enabled",
        )
    if _is_true(settings, _KILL_IDLE) and int(settings.get(_IDLE, "0").rstrip("s")):
        raise ConfigError(
            f"the Spark session sets {_KILL_IDLE}: it would end the workers, which do not talk to Java while they run",
            hint=f"set {_KILL_IDLE} to false, its default",
        )


def _is_true(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "").strip().lower() == "true"


def _without_waiting(call: Callable[[], None]) -> None:
    """Calls Java in another thread: it may not answer any more."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=quietly, name="millstream-cancel", daemon=True)
    thread.start()
    thread.join(_CANCEL_SECONDS)
