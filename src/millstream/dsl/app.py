"""The application: where a topology begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from millstream.config import Config, Settings
from millstream.core.callsite import caller
from millstream.core.durations import Duration
from millstream.core.names import check_name
from millstream.dsl.inputs import GlobalTableOptions, Inputs, StreamOptions, TableOptions
from millstream.dsl.internals import DslObject, declared_serde
from millstream.dsl.options import Materialized
from millstream.dsl.stores import name_of, store_of_processors
from millstream.dsl.stream import Stream
from millstream.dsl.suggesting import check_options, suggesting_methods
from millstream.dsl.table import GlobalTable, Table
from millstream.errors import ConfigError, MillstreamError
from millstream.plan.builder import Builder
from millstream.plan.node import Plan
from millstream.plan.process import Store
from millstream.serde import Serde, serde_for

if TYPE_CHECKING:
    from millstream.runtime.facade import Handle, Listener
    from millstream.stages import Topology
    from millstream.stages.describe import Format
    from millstream.state.stores import ReadOnlyKeyValueStore

K = TypeVar("K")
V = TypeVar("V")

Typed = type[K] | Serde[K]
"""What tells a serde: a type, or the serde itself."""


@suggesting_methods
class App(DslObject[Inputs]):
    """An application: a topology of streams and tables, and its configuration.

    Args:
        application_id: Its name, which also begins the names of its internal topics.
        config: Configuration by Kafka's keys.
        **options: The same with underscores, ``topology_optimization="all"``. Keys of Spark and of Kafka's clients,
            which have a prefix, are given in ``config``.

    >>> from millstream import App, TestDriver
    >>> app = App("word-count")
    >>> words = app.stream("lines", value=str).flat_map_values(lambda line: line.split())
    >>> words.group_by(lambda word: word).count(store="counts").to_stream().to("word-counts")
    >>> with TestDriver(app) as driver:
    ...     driver.input("lines").pipe("to be or not to be")
    ...     driver.store("counts").get("be")
    2
    """

    def __init__(
        self, application_id: str, *, config: Mapping[str, Any] | None = None, **options: Unpack[Settings]
    ) -> None:
        self.id = check_name(application_id, "application")
        self.config = Config({**(config or {}), **options})
        for part in ("key", "value"):
            key = f"default.{part}.serde"
            try:
                serde_for(self.config[key], part)
            except ConfigError as error:
                raise ConfigError(f"{key}: {error.message}", hint=error.hint) from None
        super().__init__(Inputs(Builder(self.id, self.config)))

    def __repr__(self) -> str:
        return f"App({self.id!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the topology as a picture."""
        from html import escape  # noqa: PLC0415  (only a notebook needs it)

        try:
            shown = self.describe("svg")
        except MillstreamError as error:
            shown = f"<pre>{escape(str(error))}</pre>"
        return f"<div><div><b>{escape(repr(self))}</b></div>{shown}</div>"

    @overload
    def stream(
        self, *topics: str, key: Typed[K], value: Typed[V], **options: Unpack[StreamOptions]
    ) -> Stream[K, V]: ...
    @overload
    def stream(self, *topics: str, key: Typed[K], **options: Unpack[StreamOptions]) -> Stream[K, Any]: ...
    @overload
    def stream(self, *topics: str, value: Typed[V], **options: Unpack[StreamOptions]) -> Stream[str, V]: ...
    @overload
    def stream(self, *topics: str, value: Any = ..., **options: Unpack[StreamOptions]) -> Stream[str, Any]: ...
    @overload
    def stream(
        self, *topics: str, key: Any, value: Any = ..., **options: Unpack[StreamOptions]
    ) -> Stream[Any, Any]: ...
    def stream(
        self, *topics: str, key: Any = None, value: Any = None, **options: Unpack[StreamOptions]
    ) -> Stream[Any, Any]:
        """Reads one topic, several, or all whose names match a pattern, as a stream.

        Args:
            *topics: Names of the topics.
            key: Serde of the keys: a type (``str``, ``int``, a dataclass, …) or a `Serde`.
            value: Serde of the values.
            pattern: Regular expression for the names of the topics, instead of naming them.
            timestamp: Where the time of a record comes from: by default the record's own timestamp; ``"wall_clock"``;
                the name of a field of the value, holding milliseconds; or a function of the value, of key and
                value, or of key, value, record timestamp and partition time, giving milliseconds.
            on_invalid_timestamp: What happens to a record whose own timestamp is negative: ``"fail"``, ``"skip"``, or
                ``"partition_time"``: the greatest timestamp seen in its partition. A function or field that gives
                None or a negative number drops the record (and counts it).
            offset_reset: Where an application begins to read, if not where ``auto.offset.reset`` says:
                ``"earliest"``, ``"latest"``, ``"none"`` or ``"by_duration:1h"``.
            name: Name of the operator.
        """
        check_options("stream", options, StreamOptions, "key", "value")
        if len(topics) == 1 and isinstance(topics[0], list | tuple):
            topics = tuple(topics[0])
        return Stream(self._internals.stream(topics, key, value, options))

    @overload
    def table(self, topic: str, *, key: Typed[K], value: Typed[V], **options: Unpack[TableOptions]) -> Table[K, V]: ...
    @overload
    def table(self, topic: str, *, key: Typed[K], **options: Unpack[TableOptions]) -> Table[K, Any]: ...
    @overload
    def table(self, topic: str, *, value: Typed[V], **options: Unpack[TableOptions]) -> Table[str, V]: ...
    @overload
    def table(self, topic: str, *, value: Any = ..., **options: Unpack[TableOptions]) -> Table[str, Any]: ...
    @overload
    def table(self, topic: str, *, key: Any, value: Any = ..., **options: Unpack[TableOptions]) -> Table[Any, Any]: ...
    def table(
        self, topic: str, *, key: Any = None, value: Any = None, **options: Unpack[TableOptions]
    ) -> Table[Any, Any]:
        """Reads a topic as a table: the last value of each key; a null value deletes the row.

        Args:
            topic: Name of the topic.
            key: Serde of the keys.
            value: Serde of the values.
            store: Name of the store, or `Materialized`, with ``history=…`` for a versioned table. Without a name, rows
                are kept only if something looks them up.
            ttl: A row that was not updated for this long in stream time is deleted.
            timestamp: As for `stream`.
            on_invalid_timestamp: As for `stream`.
            name: Name of the operator.
        """
        check_options("table", options, TableOptions, "key", "value")
        return Table(self._internals.table(topic, key, value, options))

    @overload
    def global_table(
        self, topic: str, *, key: Typed[K], value: Typed[V], **options: Unpack[GlobalTableOptions]
    ) -> GlobalTable[K, V]: ...
    @overload
    def global_table(
        self, topic: str, *, key: Typed[K], **options: Unpack[GlobalTableOptions]
    ) -> GlobalTable[K, Any]: ...
    @overload
    def global_table(
        self, topic: str, *, value: Typed[V], **options: Unpack[GlobalTableOptions]
    ) -> GlobalTable[str, V]: ...
    @overload
    def global_table(
        self, topic: str, *, value: Any = ..., **options: Unpack[GlobalTableOptions]
    ) -> GlobalTable[str, Any]: ...
    @overload
    def global_table(
        self, topic: str, *, key: Any, value: Any = ..., **options: Unpack[GlobalTableOptions]
    ) -> GlobalTable[Any, Any]: ...
    def global_table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> GlobalTable[Any, Any]:
        """Reads a topic as a table that is whole in every task, for joins by any key.

        It costs memory in every task, and is for tables that are small and change slowly.
        """
        return GlobalTable(self._internals.global_table(topic, key, value, store, name))

    def add_store(
        self,
        name: str,
        kind: Literal["key-value", "timestamped", "window", "session", "versioned"] = "key-value",
        *,
        key: Any = None,
        value: Any = None,
        retention: Duration | None = None,
        window_size: Duration | None = None,
        duplicates: bool = False,
        logging: bool = True,
        view: bool = True,
    ) -> None:
        """Adds a store for processors, which use it by name.

        Args:
            name: Name of the store.
            kind: ``key-value``, ``timestamped`` (key-value with a timestamp beside each value), ``window``,
                ``session`` or ``versioned``.
            key: Serde of the keys.
            value: Serde of the values.
            retention: How long rows of window, session and versioned stores are kept.
            window_size: How long the windows of a window store are.
            duplicates: A window store keeps several rows of one key and time.
            logging: Whether the store has a changelog.
            view: Whether it can be queried from outside.
        """
        builder = self._internals.builder
        spec = store_of_processors(
            name,
            kind,
            builder.serde(declared_serde(key, "key"), "key"),
            builder.serde(declared_serde(value, "value"), "value"),
            retention=retention,
            window_size=window_size,
            duplicates=duplicates,
            logged=logging,
            viewed=view,
        )
        builder.add(Store(name=builder.name(None, "store", base=name), at=caller(), store=spec))

    def plan(self) -> Plan:
        """The topology as a plan, before any optimisation."""
        return self._internals.builder.plan()

    def topology(self) -> Topology:
        """The topology as it runs: optimised as configured, and cut into sub-topologies."""
        from millstream.optimize import optimize  # noqa: PLC0415  (only a topology that runs needs the rest)
        from millstream.stages import cut  # noqa: PLC0415

        return cut(optimize(self.plan(), self.config["topology.optimization"]))

    def describe(self, format: Format = "text") -> str:
        """Describes the topology as it runs.

        Args:
            format: ``text`` (Kafka Streams' own form, for people and existing visualisers), ``mermaid``, ``svg`` or
                ``json``.
        """
        from millstream.stages.describe import describe  # noqa: PLC0415  (not every application is described)

        return describe(self.topology(), format)

    def fingerprint(self) -> str:
        """A short digest of all that the state of the application depends on, of the topology as it runs.

        The same topology always has the same, whatever its functions are called and on whichever lines they are.
        """
        from millstream.plan.fingerprint import fingerprint  # noqa: PLC0415

        return fingerprint(self.topology().plan)

    def start(self, *, until_caught_up: bool = False, on_state_change: Listener | None = None) -> Handle:
        """Starts the application on Spark, in the background.

        Args:
            until_caught_up: Process what is in the topics now, then end.
            on_state_change: Called with the new and the old state at each change, from CREATED to STARTING on.

        Returns:
            A handle: its state, its figures, its stores, and how to stop it.

        Raises:
            SetupError: It cannot start: there is no Java, another instance is running, a topic is missing, the topology
                cannot go on with the state that there is.
        """
        from millstream.runtime import facade  # noqa: PLC0415  (only an application that runs needs it)

        return facade.start(
            self.topology(), self.config, until_caught_up=until_caught_up, on_state_change=on_state_change
        )

    @overload
    def store(self, name: Table[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: GlobalTable[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: str, *, timestamped: bool = False) -> Any: ...
    def store(self, name: str | Table[Any, Any] | GlobalTable[Any, Any], *, timestamped: bool = False) -> Any:
        """Opens a named store for reading, whether the application runs, in this process or another, or not.

        What is read is what the store was at the end of the last batch.

        Args:
            name: The name of the store; or its table, with which type checkers know the types of keys and values.
            timestamped: Show the timestamps that are kept with the values, too.

        Raises:
            UnknownStoreError: There is no such store, or no batch that writes to it has been committed yet.
        """
        from millstream.runtime import facade  # noqa: PLC0415  (as above)

        return facade.open_store(self.topology(), self.config, name_of(name), timestamped=timestamped)

    def run(self, *, until_caught_up: bool = False, on_state_change: Listener | None = None) -> None:
        """Runs the application on Spark until it is interrupted, or, if so asked, has caught up.

        Ctrl-C, or SIGTERM, finishes the batch, if that takes no longer than a few seconds, and stops within ten; a
        second one does not wait for that.

        Args:
            until_caught_up: Process what is in the topics now, then end.
            on_state_change: Called with the new and the old state at each change, from CREATED to STARTING on.

        Raises:
            MillstreamError: The application could not start, or failed.
        """
        from millstream.runtime import facade  # noqa: PLC0415  (as above)

        facade.run(self.topology(), self.config, until_caught_up=until_caught_up, on_state_change=on_state_change)
