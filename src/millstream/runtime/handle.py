"""The handle of a running application: its state, metrics and stores, and how to pause and stop it."""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from millstream.errors import ConfigError, MillstreamError
from millstream.runtime.connectors.host import ConnectorHost
from millstream.runtime.lifecycle import Listener, State
from millstream.runtime.queries import open_store
from millstream.runtime.supervisor import Supervisor
from millstream.stages.describe import Format, describe
from millstream.state.stores import ReadOnlyKeyValueStore
from millstream.text.html import facts
from millstream.text.suggestions import suggesting_attributes

if TYPE_CHECKING:
    from millstream.dsl.table import GlobalTable, Table

K = TypeVar("K")
V = TypeVar("V")


@suggesting_attributes
class Handle:
    """A started application. It runs in the background until it is stopped or fails.

    `App.start` returns it.
    """

    def __init__(self, supervisor: Supervisor, connectors: ConnectorHost | None = None) -> None:
        self._supervisor = supervisor
        self._connectors = connectors

    def __repr__(self) -> str:
        return f"Handle({self.application_id!r}, {self.state.value})"

    def _repr_html_(self) -> str:
        """The form for notebooks: the state, and the main metrics."""
        try:
            figures = self.metrics()
        except MillstreamError as error:  # a broker may not answer
            return facts(repr(self), [("", error)])
        rates = figures["records_per_second"]
        lag = {topic: source["lag"] for topic, source in figures["sources"].items()}
        named = [
            ("state", self.state.value),
            ("publications", figures["batches"]),
            ("records per second", f"in {rates['in']:.0f}, out {rates['out']:.0f}"),
            ("records to be read", ", ".join(f"{topic}: {count:,}" for topic, count in lag.items())),
            ("records dropped", sum(figures["dropped"].values())),
            ("rows in stores", ", ".join(f"{name}: {store['rows']:,}" for name, store in figures["stores"].items())),
            ("error", self._supervisor.error),
        ]
        return facts(repr(self), named)

    @property
    def application_id(self) -> str:
        """The application id."""
        return self._supervisor.application.id

    @property
    def state(self) -> State:
        """The state of the application."""
        return self._supervisor.life.state

    @property
    def error(self) -> MillstreamError | None:
        """The error that has ended the application."""
        return self._supervisor.error

    def wait_for(self, states: Collection[State], timeout: float | None = None) -> bool:
        """Waits until the application is in one of the states or has ended; returns whether it is."""
        return self._supervisor.life.wait(lambda state: state in states or state.is_over, timeout)

    def on_state_change(self, listener: Listener) -> None:
        """Adds a function that is called with the new and the old state at each change.

        A listener passed to `App.start` is called from the first change on. It is called in the thread that makes the
        change, so it must return soon, and must not wait for the application to end.
        """
        self._supervisor.life.listen(listener)

    def metrics(self) -> dict[str, Any]:
        """Returns the metrics of this run of the application, by name.

        In real-time and local mode, a batch is a publication of one worker: there is one every ``commit.interval.ms``
        of each worker that has something to publish.

        - ``batches``, ``last_batch`` and ``last_batch_seconds``. The duration of a publication contains the time spent
          to process its records, and the commit.
        - ``records``: the numbers of records read from topics and written to them (``in`` and ``out``), without the
          application's own topics, which are those of repartitions and changelogs. ``records_per_second``: the same
          over the last ten seconds.
        - ``sources``: by topic, the number of records ``read``, and the number still to be read (``lag``). ``lags``:
          the lag of each partition.
        - ``sinks``: by topic, the number of records written.
        - ``operators``: by name, the number of records ``dropped``, by reason; for sources and repartitions also the
          number received (``taken``). ``dropped`` contains the same in one list. ``dead_letters``: those of them that
          were written to the dead-letter topic, or to quarantine.
        - ``nodes``: by operator, the numbers of records received and sent (``in`` and ``out``), as far as they follow
          from the numbers of sources, repartitions and sinks and from the topology; else None.
        - ``contracts``: by name, the number of records ``dropped`` and ``quarantined``, and in ``rules`` the number of
          violations by rule and reason (``violated``, ``null``, ``error``, ``schema``). ``operators`` has them, too.
        - ``subtopologies``: by number, as in `App.describe`, the number of records that its sources received
          (``taken``).
        - ``stores``: by name, including unnamed ones: the approximate number of ``rows``, the bytes of ``memory`` that
          they take, the ``stored-bytes`` in Spark's state or, in real-time mode, in the local page stores. For stores
          that can be queried, in micro-batches, also the number of ``changes`` of their views. A worker measures its
          stores once a second.
        - ``state_size``: all stores together, with their pages and their log; ``state_bytes``: its total.
        - ``stream_times``: for each task the sub-topology, the partition, and the greatest timestamp taken.
        - ``phases``: the seconds of the last batch spent in ``spark``, of these at least in ``read`` and ``engine``,
          and in the ``commit``. In real-time mode: in ``process``, and in the ``commit``.
        - ``histograms``: of ``phases``; of whole publications (``publication``); of ``checkpoint`` writes, of which
          ``checkpoint_bytes`` is the size; and the ``latency`` of records: ``processing``, from the read of the first
          record of a publication to its commit, and ``event``, the ages of output records at the commit, from a sample
          of them. Seconds, by the upper bounds of the buckets.
        - ``memory``: the resident bytes of this process (``application``) and of task hosts or workers.
        - ``waiting``: the number of records that tasks hold back because earlier ones may arrive.
        - ``restarts``: how often the application, a worker or a task was lost and started again.
        - ``restoring``: the progress of the restoration of stores; empty if there is none.
        - ``connectors``: by name, the ``state`` and the ``tasks`` of each connector, with the numbers of ``records``,
          of those ``dropped`` by reason, and the ``gauges`` of the connector itself.
        """
        return {"state": self.state.value, **self._supervisor.metrics.read()}

    @overload
    def store(self, name: Table[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: GlobalTable[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: str, *, timestamped: bool = False) -> Any: ...
    def store(self, name: str | Table[Any, Any] | GlobalTable[Any, Any], *, timestamped: bool = False) -> Any:
        """Opens a named store for reading. It shows what is committed.

        Args:
            name: The name of the store; or its table, from which type checkers infer the types of keys and values.
            timestamped: Return the timestamps of the values, too.
        """
        from millstream.dsl.stores import name_of  # noqa: PLC0415  (a table is an object of the DSL)

        program = self._supervisor.application.program
        return open_store(program.topology, program.config, name_of(name), timestamped=timestamped)

    def describe(self, format: Format = "text") -> str:
        """Describes the topology as it runs, as `App.describe` does.

        In workers it may contain more repartitions than that of `App.describe`: of input topics that have another
        number of partitions than those with which they are joined.

        Args:
            format: ``text``, ``mermaid``, ``svg`` or ``json``.
        """
        return describe(self._supervisor.application.program.topology, format)

    def pause(self) -> None:
        """Finishes the running batch, or commits what was processed, and processes nothing until `resume`."""
        self._supervisor.pause()

    def resume(self) -> None:
        """Continues after `pause`."""
        self._supervisor.resume()

    def command(self, connector: str, command: str, **arguments: Any) -> None:
        """Gives a command to a connector.

        Args:
            connector: The name of the connector.
            command: ``pause``, ``resume``, ``restart``; or a command of its source, such as ``snapshot``.
            **arguments: The arguments of a command of the source.

        Raises:
            ConfigError: There is no such connector, or it does not have the command.
        """
        if self._connectors is None:
            raise ConfigError(f"application {self.application_id!r} has no connectors", hint="app.connect(…) adds them")
        self._connectors.command(connector, command, arguments)

    def stop(self, timeout: float | None = None) -> bool:
        """Publishes what was processed and stops; returns whether it has stopped within the timeout.

        That takes ten seconds at most. A batch that takes longer is abandoned, and runs again at the next start.
        """
        self._supervisor.stop()
        return self.wait(timeout, check=False)

    def wait(self, timeout: float | None = None, *, check: bool = True) -> bool:
        """Waits until the application has stopped; returns whether it has within the timeout.

        Raises:
            MillstreamError: The application has failed, and ``check`` is True.
        """
        is_over = self._supervisor.wait(timeout)
        if check and self._supervisor.error is not None:
            raise self._supervisor.error
        return is_over

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the application.

        Raises:
            MillstreamError: The application has failed, and the block has not.
        """
        self.stop()
        if kind is None:
            self.wait()

    def start(self) -> Self:
        """Starts the application; `App.start` has done so already."""
        self._supervisor.start()
        return self
