"""The handle of a running application: its state, its figures, its stores, and how to stop it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import msgspec

from millstream.dsl.app import App
from millstream.dsl.stores import name_of
from millstream.dsl.table import GlobalTable, Table
from millstream.errors import (
    BrokerError,
    LogError,
    MillstreamError,
    OffsetOutOfRangeError,
    QueryError,
    RunError,
)
from millstream.runtime.batches.control import Control, PlannerSettings
from millstream.runtime.batches.pacing import Pacing
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.batches.task_schedule import TaskSchedule
from millstream.runtime.lifecycle import Lifecycle, Listener, State
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.observe.status import Status
from millstream.runtime.program.modules import refuse_start_in_import
from millstream.runtime.publish.committer import Committer, error_of
from millstream.runtime.publish.log_cleanup import LogCleaner
from millstream.runtime.queries import open_store
from millstream.runtime.spark.java import has_ended
from millstream.runtime.spark.session import (
    check_reachable,
    check_startable,
    cores_of,
    import_pyspark,
    open_session,
    where_to_look,
)
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.state.stores import ReadOnlyKeyValueStore
from millstream.text.escaping import error_text
from millstream.text.html import facts
from millstream.text.suggestions import suggesting_attributes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.runtime.spark.query import Query

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_POLL = 0.02
_ASK_EVERY = 1.0
"""How often Spark is asked for tasks that failed, in seconds."""

_GRACE = 6.0
"""How long a batch may take to end when the application is to stop, which may take 10 seconds with all that follows."""

_MANY = 1000
_FEW = 100
_FEW_BYTES = 1024**2


@suggesting_attributes
class Handle:
    """A started application. It runs in the background until it is stopped or fails.

    Args:
        app: The application.
        until_caught_up: Process what is in the topics now, then end.
        on_state_change: As in `on_state_change`, told of the very first change, too.
    """

    def __init__(self, app: App, *, until_caught_up: bool = False, on_state_change: Listener | None = None) -> None:
        refuse_start_in_import()
        self._app = app
        self._life = Lifecycle()
        check_startable(app.config)
        self._until_caught_up = until_caught_up
        if on_state_change is not None:
            self._life.listen(on_state_change)
        self._stopping = threading.Event()
        self._error: MillstreamError | None = None
        self._application = PreparedApplication(app)
        try:
            self._application.retry_while_unavailable(self._look)
        except BaseException:
            self._application.close()
            raise
        config = app.config
        self._pacing = Pacing(
            config["target.batch.ms"],
            config["min.batch.records"],
            config["max.batch.records"],
            config["max.batch.bytes"],
            self._each,
        )
        self._control = Control(self._application.directory / "control.json")
        self._orders = PlannerSettings(self._pacing.records, due=0, until=self._until)
        self._control.write(self._orders)
        self._status = Status(app, self._metrics)
        self._life.listen(self._status.state_changed)
        self._batch_failure: MillstreamError | None = None
        self._look_at = f"look at {self._application.directory / 'spark.log'}"
        self._ordering = threading.Lock()
        self._progressed = False
        self._looked_after = -1
        self._suspect = False
        self._asked = 0.0
        self._thread = threading.Thread(target=self._supervise, name=f"millstream-{app.id}", daemon=True)

    def _look(self) -> None:
        """Looks at where the log is now: before this, nothing is known of it."""
        application = self._application
        self._subscription = Subscription(application.program, application.log)
        own, first = self._subscription.internal, application.first.offsets
        inputs = [t for t in self._subscription.topics if t not in own and t not in self._subscription.restores]
        self._until = application.log.ends(inputs) if self._until_caught_up else None
        self._upkeep = LogCleaner(
            application.log,
            self._app.id,
            self._app.config["log.cleanup.interval.ms"],
            {(t, p): o for t in self._subscription.topics for p, o in enumerate(first.get(t, []))},
            own,
        )
        self._metrics = Metrics(application)
        self._each = max((self._size_of_records(topic) for topic in inputs), default=0.0)

    def _size_of_records(self, topic: str) -> float:
        """About how many bytes the records of a topic have: as many as the first ones that will be read."""
        log = self._application.log
        starts, ends = log.starts([topic])[topic], log.ends([topic])[topic]
        for partition, (first, end) in enumerate(zip(starts, ends, strict=False)):
            start = max(first, self._metrics.position(topic, partition))
            if end - start >= _MANY:
                with contextlib.suppress(OffsetOutOfRangeError):  # deleted just now
                    some = log.read(topic, partition, start, start + _FEW, max_bytes=_FEW_BYTES)
                    return float(some.nbytes / max(len(some), 1))
        return 0.0

    def __repr__(self) -> str:
        return f"Handle({self._app.id!r}, {self.state.value})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the state, and the figures that matter."""
        try:
            figures = self.metrics()
        except MillstreamError as error:  # a broker may not answer
            return facts(repr(self), [("", error)])
        rates = figures["records_per_second"]
        lag = {topic: source["lag"] for topic, source in figures["sources"].items()}
        named = [
            ("state", self.state.value),
            ("batches", figures["batches"]),
            ("records per second", f"in {rates['in']:.0f}, out {rates['out']:.0f}"),
            ("records to be read", ", ".join(f"{topic}: {count:,}" for topic, count in lag.items())),
            ("records dropped", sum(figures["dropped"].values())),
            ("rows in stores", ", ".join(f"{name}: {one['rows']:,}" for name, one in figures["stores"].items())),
            ("error", self._error),
        ]
        return facts(repr(self), named)

    # ----- what users call -------------------------------------------------------------------------------------

    @property
    def application_id(self) -> str:
        """Whose handle this is."""
        return self._app.id

    @property
    def state(self) -> State:
        """Where the application is in its life."""
        return self._life.state

    def on_state_change(self, listener: Listener) -> None:
        """Has a function called with the new and the old state at each change from now on.

        `App.start` takes one that is called from the first change on. It is called in the thread that makes the change,
        so it should not take long, and must not wait for the application to end.
        """
        self._life.listen(listener)

    def metrics(self) -> dict[str, Any]:
        """Figures of this run of the application, by name.

        - ``batches``, ``last_batch``, ``last_batch_seconds``, and ``records_per_second``, ``in`` and ``out``.
        - ``sources``: by topic, how many records were ``read``, and how many are still to be read (``lag``).
        - ``sinks``: by topic, how many records were written.
        - ``operators``: by name, how many records were ``dropped``, by reason; of sources and repartitions also how
          many came to them (``taken``). ``dropped`` has the same in one list.
        - ``subtopologies``: by number, as `App.describe` has it, how many records came to its sources (``taken``).
        - ``stores``: by name, those without a name of their own, too: about how many ``rows`` they have, how many bytes
          of ``memory`` these take, how many ``stored-bytes`` there are in Spark's state, and, of those that can be
          queried, how many ``changes`` their views have got.
        - ``state_size``: all stores together, with what their pages and their log take.
        - ``phases``: how many seconds of the last batch went to ``spark``, and in it at least to ``read`` and
          ``engine``, and to the ``commit``.
        - ``waiting``: how many records tasks hold because others may come before them.
        """
        return {"state": self.state.value, **self._metrics.read()}

    @overload
    def store(self, name: Table[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: GlobalTable[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: str, *, timestamped: bool = False) -> Any: ...
    def store(self, name: str | Table[Any, Any] | GlobalTable[Any, Any], *, timestamped: bool = False) -> Any:
        """Opens a named store for reading: what it was at the end of the last batch, from this process or any other.

        Args:
            name: The name of the store; or its table, with which type checkers know the types of keys and values.
            timestamped: Show the timestamps that are kept with the values, too.
        """
        topology = self._application.program.topology
        return open_store(topology, self._app.config, name_of(name), timestamped=timestamped)

    def pause(self) -> None:
        """Finishes the batch, and begins no other until `resume`."""
        self._order(paused=True)

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._order(paused=False)

    def stop(self, timeout: float | None = None) -> bool:
        """Finishes the batch and stops; returns whether it has, in the time given.

        That takes ten seconds at most. A batch that takes longer is given up, and run at the next start.
        """
        self._stopping.set()
        self._life.change(State.PENDING_SHUTDOWN)
        return self.wait(timeout, check=False)

    def wait(self, timeout: float | None = None, *, check: bool = True) -> bool:
        """Waits until the application has stopped; returns whether it has, in the time given.

        Raises:
            MillstreamError: What it failed of, unless ``check`` is False.
        """
        self._life.wait(lambda state: state.is_over, timeout)
        if self.state.is_over and threading.current_thread() is not self._thread:  # as that of a listener may be
            self._thread.join()
        if check and self._error is not None:
            raise self._error
        return self.state.is_over

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the application.

        Raises:
            MillstreamError: What it failed of, unless the block has failed itself.
        """
        self.stop()
        if kind is None:
            self.wait()

    # ----- the thread ------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begins; `App.start` has done so already."""
        self._life.change(State.STARTING)
        self._thread.start()
        return self

    def _supervise(self) -> None:
        try:
            self._upkeep.start()
            with self._status:
                if self._application.lost:
                    self._status.lost(self._application.lost)
                self._attempts()
        except MillstreamError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  (whatever it is, it must be told)
            if isinstance(error, ConnectionError) or has_ended():
                self._error = RunError(
                    "the application stopped: Spark's Java process has ended",
                    hint="if it ran out of memory, see spark.driver.memory and max.batch.bytes; " + self._look_at,
                )
            else:
                self._error = RunError(f"the application stopped: {error_text(error)}")
                self._error.__cause__ = error
        finally:
            self._status.error = self._error
            with contextlib.suppress(Exception):
                self._upkeep.stop()
            with contextlib.suppress(Exception):
                if self._control.read_trouble() is None:  # else whom it asks does not answer
                    self._metrics.lag()
            with contextlib.suppress(Exception):
                self._application.close()
            if self._error is None:
                self._life.change(State.PENDING_SHUTDOWN)
                self._life.change(State.NOT_RUNNING)
            else:
                self._life.change(State.PENDING_ERROR)
                self._life.change(State.ERROR)

    def _attempts(self) -> None:
        """Runs the query, again after a failure that may pass."""
        config = self._app.config
        failures = 0
        while True:
            self._progressed = False
            try:
                self._attempt()
                return
            except MillstreamError as error:
                if not _may_pass(error) or self._stopping.is_set():
                    raise
                failures = 1 if self._progressed else failures + 1
                if failures > config["restart.max.attempts"]:
                    raise
                pause = min(60.0, config["restart.backoff.ms"] / 1000 * 2 ** (failures - 1))
                self._suspect = isinstance(error, QueryError)
                self._status.failed(error, pause)
                self._life.change(State.STARTING)
                if self._stopping.wait(pause):
                    return

    def _attempt(self) -> None:
        import_pyspark()
        from millstream.runtime.spark.query import Query  # noqa: PLC0415  (it imports PySpark)
        from millstream.runtime.spark.source import Before  # noqa: PLC0415

        application = self._application
        self._batch_failure = None
        self._control.clear()
        with self._status.waiting("starting Spark"):
            session = self._unless_stopped(self._open_session)
        if session is None:
            return
        self._look_at = where_to_look(session)
        cores = cores_of(session)
        committer = Committer(application.program, application.log, application.epoch, application.base)
        self._roster = TaskSchedule(application.program.tasks if application.program.placement.tasks else 0)
        self._order(bounds=committer.bounds, due=0, awake=None)
        self._looked_after = -1

        def commit(batch: int, payloads: list[bytes], seconds: float) -> None:
            try:
                self._commit(committer, batch, payloads, seconds, cores)
            except MillstreamError as error:
                self._batch_failure = error
                raise

        at_most_once = self._app.config["processing.guarantee"] == "at_most_once"
        with self._status.waiting("starting the query"):
            query = Query(
                session,
                application.program,
                application.first,
                application.directory / "control.json",
                application.checkpoint,
                commit,
                Before(application.started_batch() if at_most_once else None, self._suspect),
            )
        self._life.change(State.RUNNING)
        try:
            self._watch(query)
        finally:
            query.stop()

    def _open_session(self) -> SparkSession:
        application = self._application
        session, _started = open_session(self._app.config, application.directory, application.checkpoint)
        check_reachable(session, application.program.log)
        return session

    def _unless_stopped(self, step: Callable[[], T]) -> T | None:
        """Takes a step that may take long; it is given up, and goes on unheeded, if the application is to stop."""
        future: Future[T] = Future()

        def take() -> None:
            try:
                future.set_result(step())
            except BaseException as error:  # noqa: BLE001  (it is raised where it is waited for)
                future.set_exception(error)

        threading.Thread(target=take, name=f"millstream-{self._app.id}-start", daemon=True).start()
        while not futures.wait([future], _POLL).done:
            if self._stopping.is_set():
                return None
        return None if self._stopping.is_set() else future.result()

    def _watch(self, query: Query) -> None:
        """Waits until the query ends, or may be ended."""
        while query.spark.isActive:
            if self._stopping.wait(_POLL) or (self._until_caught_up and self._is_caught_up()):
                self._end(query)
                return
            self._status.trouble(self._control.read_trouble())
            self._tell_of_retries(query)
        self._tell_of_retries(query, now=True)
        if self._batch_failure is not None:
            raise self._batch_failure
        failure = self._control.failure()
        raise self._spark_failure(query) if failure is None else error_of(failure)

    def _tell_of_retries(self, query: Query, *, now: bool = False) -> None:
        """Tells of each batch and each task that is run again. Spark is asked for them now and then."""
        for line in self._control.told():
            self._status.retrying(line)
        if now or time.monotonic() - self._asked >= _ASK_EVERY:
            for line in query.failed_tasks.new():
                self._status.retrying(line)
            self._asked = time.monotonic()

    def _spark_failure(self, query: Query) -> MillstreamError:
        why = query.why_it_ended()
        said = ", and does not say why" if why is None else f": {why}"
        return QueryError(f"Spark stopped the query{said}", hint=self._look_at)

    def _end(self, query: Query) -> None:
        """Ends the query between two batches."""
        self._life.change(State.PENDING_SHUTDOWN)
        self._order(paused=True)
        deadline = time.monotonic() + _GRACE
        while query.spark.isActive and time.monotonic() < deadline and not self._control.is_acknowledged(self._orders):
            time.sleep(_POLL)
        if not query.spark.isActive and self._batch_failure is not None:
            raise self._batch_failure

    # ----- batches ---------------------------------------------------------------------------------------------

    def _commit(self, committer: Committer, batch: int, payloads: list[bytes], seconds: float, cores: int) -> None:
        started = time.perf_counter()
        results = committer.commit(batch, payloads)
        took = time.perf_counter() - started
        self._progressed = True
        self._upkeep.batch({(t, p): end for written in results for t, p, _begin, end in written.offsets})
        self._metrics.add(batch, results, seconds, took, cores)
        metrics = self._metrics
        is_full = metrics.last_records >= self._pacing.records // 2  # else there is no backlog
        unread = sum(metrics.lag().values()) if is_full else 0
        self._pacing.learn(metrics.last_records, metrics.last_seconds, metrics.last_work, metrics.last_bytes, unread)
        self._order(records=self._pacing.records, bounds=committer.bounds, **self._roster.orders(results))
        self._status.batch(results)

    def _order(self, **changes: Any) -> None:
        with self._ordering:
            orders = msgspec.structs.replace(self._orders, **changes)
            if orders != self._orders:
                self._orders = msgspec.structs.replace(orders, number=orders.number + 1)
                self._control.write(self._orders)

    def _is_caught_up(self) -> bool:
        """Whether all that was there at the start has been processed, and what came of it.

        Only a batch can change that. So it is found out once after each batch: it takes a look at every partition.
        """
        batches = self._metrics.batches
        if self._metrics.waiting or batches == self._looked_after:
            return False
        self._looked_after = batches
        application = self._application
        published = application.log.applications.published(self._app.id)
        read = {} if published is None else published.offsets

        def reaches(bounds: dict[str, list[int]]) -> bool:
            return all(
                read.get((topic, partition), self._metrics.position(topic, partition)) >= end
                for topic, ends in bounds.items()
                for partition, end in enumerate(ends)
            )

        return reaches(self._orders.until or {}) and reaches(application.log.ends(sorted(self._subscription.internal)))


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Makes SIGTERM do what Ctrl-C does, unless the program has plans of its own for it."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _may_pass(error: MillstreamError) -> bool:
    """Whether it may be gone after a new start: what is wrong with the application or its records is not."""
    if isinstance(error, BrokerError):
        return error.may_pass
    return isinstance(error, QueryError) or type(error) is LogError
