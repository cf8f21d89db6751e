"""The handle of a running application: its state, metrics and stores, and how to pause and stop it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from millstream.errors import MillstreamError
from millstream.runtime.lifecycle import Listener, State
from millstream.runtime.queries import open_store
from millstream.runtime.supervisor import Supervisor
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

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def __repr__(self) -> str:
        return f"Handle({self.application_id!r}, {self.state.value})"

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
            ("error", self._supervisor.error),
        ]
        return facts(repr(self), named)

    @property
    def application_id(self) -> str:
        """The application id."""
        return self._supervisor.application.id

    @property
    def state(self) -> State:
        """Where the application is in its life."""
        return self._supervisor.life.state

    def on_state_change(self, listener: Listener) -> None:
        """Has a function called with the new and the old state at each change from now on.

        `App.start` takes one that is called from the first change on. It is called in the thread that makes the change,
        so it should not take long, and must not wait for the application to end.
        """
        self._supervisor.life.listen(listener)

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
        return {"state": self.state.value, **self._supervisor.metrics.read()}

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
        from millstream.dsl.stores import name_of  # noqa: PLC0415  (a table is an object of the DSL)

        program = self._supervisor.application.program
        return open_store(program.topology, program.config, name_of(name), timestamped=timestamped)

    def pause(self) -> None:
        """Finishes the batch, and begins no other until `resume`."""
        self._supervisor.pause()

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._supervisor.resume()

    def stop(self, timeout: float | None = None) -> bool:
        """Finishes the batch and stops; returns whether it has, in the time given.

        That takes ten seconds at most. A batch that takes longer is given up, and run at the next start.
        """
        self._supervisor.stop()
        return self.wait(timeout, check=False)

    def wait(self, timeout: float | None = None, *, check: bool = True) -> bool:
        """Waits until the application has stopped; returns whether it has, in the time given.

        Raises:
            MillstreamError: What it failed of, unless ``check`` is False.
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
            MillstreamError: What it failed of, unless the block has failed itself.
        """
        self.stop()
        if kind is None:
            self.wait()

    def start(self) -> Self:
        """Starts the application; `App.start` has done so already."""
        self._supervisor.start()
        return self
