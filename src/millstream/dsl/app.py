"""The application: where a topology begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from millstream.config import Config, Settings, offset_reset
from millstream.core.callsite import caller
from millstream.core.durations import Duration, show_ms, to_ms
from millstream.core.names import check_name
from millstream.dsl import table as tables
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value, name_of
from millstream.dsl.stream import Stream
from millstream.dsl.suggesting import check_options, suggesting_methods
from millstream.dsl.table import GlobalTable, Table
from millstream.errors import ConfigError, MillstreamError, TopologyError
from millstream.expr import Expr, col
from millstream.plan import sources
from millstream.plan.builder import Builder, shorten
from millstream.plan.functions import Function, arity
from millstream.plan.node import Plan
from millstream.plan.process import Store
from millstream.plan.sources import OnInvalid, Timestamps
from millstream.serde import Serde, serde_for
from millstream.state.spec import StoreSpec

if TYPE_CHECKING:
    from millstream.runtime.handle import Handle
    from millstream.runtime.lifecycle import Listener
    from millstream.stages import Topology
    from millstream.stages.describe import Format
    from millstream.state.stores import ReadOnlyKeyValueStore

K = TypeVar("K")
V = TypeVar("V")

TimestampOption = str | Callable[..., int | None] | Expr | None
Typed = type[K] | Serde[K]
"""What tells a serde: a type, or the serde itself."""


class StreamOptions(TypedDict, total=False):
    """Options of `App.stream`."""

    pattern: str | re.Pattern[str] | None
    timestamp: TimestampOption
    on_invalid_timestamp: OnInvalid
    offset_reset: str
    name: str | None


class TableOptions(TypedDict, total=False):
    """Options of `App.table`."""

    store: str | Materialized | None
    ttl: Duration | None
    timestamp: TimestampOption
    on_invalid_timestamp: OnInvalid
    name: str | None


class GlobalTableOptions(TypedDict, total=False):
    """Options of `App.global_table`."""

    store: str | Materialized | None
    name: str | None


@suggesting_methods
class App:
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
        self._builder = Builder(self.id, self.config)

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
        pattern, timestamp = options.get("pattern"), options.get("timestamp")
        if bool(topics) == (pattern is not None):
            raise TopologyError("stream: give topics, or a pattern for their names", hint='app.stream("orders", …)')
        for topic in topics:
            check_name(topic, "topic")
        if len(set(topics)) != len(topics):
            raise TopologyError(f"stream: a topic is named twice in {topics}", hint="name each topic once")
        expression = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        if expression is not None:
            try:
                re.compile(expression)
            except re.error as error:
                raise TopologyError(
                    f"stream: the pattern {expression!r} cannot be read: {error}",
                    hint="it is a regular expression of Python's, for whole names of topics",
                ) from error
        known_key, known_value = self._serde(key, "key"), self._serde(value, "value")
        base = shorten("-".join(topics) if topics else f"pattern-{expression}")
        node = self._builder.source(
            sources.Source(
                name=self._builder.name(options.get("name"), "source", base=base),
                at=caller(),
                topics=topics,
                pattern=expression,
                key=self._builder.serde(known_key, "key"),
                value=self._builder.serde(known_value, "value"),
                timestamps=_timestamps(
                    self._builder,
                    self._builder.serde(known_value, "value"),
                    timestamp,
                    options.get("on_invalid_timestamp", "fail"),
                ),
                offset_reset=_offset_reset(options.get("offset_reset")),
            )
        )
        return Stream(self._builder, node, node.key, node.value)

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
        check_name(topic, "topic")
        source = sources.Source(
            name=self._builder.name(None, "source", base=topic),
            at=caller(),
            topics=(topic,),
            key=self._builder.serde(self._serde(key, "key"), "key"),
            value=self._builder.serde(self._serde(value, "value"), "value"),
            timestamps=_timestamps(
                self._builder,
                self._builder.serde(self._serde(value, "value"), "value"),
                options.get("timestamp"),
                options.get("on_invalid_timestamp", "fail"),
            ),
        )
        self._builder.reserve_topic(topic, source)
        self._builder.add(source, lineage=topic)
        stream: Stream[Any, Any] = Stream(self._builder, source, source.key, source.value)
        return tables.make_table(
            stream,
            store=options.get("store"),
            ttl=options.get("ttl"),
            name=options.get("name"),
            source_topic=topic,
        )

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
        check_name(topic, "topic")
        options = Materialized.of(store)
        if options.history is not None:
            raise TopologyError(
                "global_table: a global table cannot be versioned", hint="read the topic as a table to keep its history"
            )
        keys = self._builder.serde(self._serde(key, "key"), "key")
        values = self._builder.serde(self._serde(value, "value"), "value")
        label = self._builder.name(name, "global-table", base=topic)
        node = sources.GlobalTable(
            name=label,
            at=caller(),
            topic=topic,
            key=keys,
            value=values,
            store=key_value(options, f"{label}-store", keys, values),
        )
        self._builder.reserve_topic(topic, node)
        return GlobalTable(self._builder, self._builder.add(node))

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
        if kind not in {"key-value", "timestamped", "window", "session", "versioned"}:
            raise TopologyError(f"add_store: there is no kind {kind!r} of store")
        needs_retention = kind in {"window", "session", "versioned"}
        if needs_retention != (retention is not None):
            raise TopologyError(
                f"add_store: a {kind} store {'needs a' if needs_retention else 'has no'} retention",
                hint='retention="1h"' if needs_retention else None,
            )
        if (kind == "window") != (window_size is not None):
            raise TopologyError("add_store: window stores have a window_size, and only they")
        kept = None if retention is None else to_ms(retention, "retention")
        size = None if window_size is None else to_ms(window_size, "window_size")
        if (kept or 0) < 0 or (size or 0) < 0:
            raise TopologyError("add_store: retention and window_size must not be negative")
        if kept is not None and size is not None and kept < size:
            raise TopologyError(
                f"add_store: the retention ({show_ms(kept)}) is shorter than a window ({show_ms(size)})"
            )
        if duplicates and kind != "window":
            raise TopologyError("add_store: only window stores can keep duplicates")
        spec = StoreSpec(
            name=check_name(name, "store"),
            kind="key-value" if kind == "timestamped" else kind,
            key=self._builder.serde(self._serde(key, "key"), "key"),
            value=self._builder.serde(self._serde(value, "value"), "value"),
            timestamped=kind == "timestamped",
            retention_ms=kept,
            window_size_ms=size,
            duplicates=duplicates,
            logged=logging,
            viewed=view,
            named=True,
        )
        self._builder.add(Store(name=self._builder.name(None, "store", base=name), at=caller(), store=spec))

    def plan(self) -> Plan:
        """The topology as a plan, before any optimisation."""
        return self._builder.plan()

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
        from millstream.runtime.handle import Handle  # noqa: PLC0415  (only an application that runs needs it)

        return Handle(self, until_caught_up=until_caught_up, on_state_change=on_state_change).start()

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
        from millstream.runtime.queries import open_store  # noqa: PLC0415  (as above)

        return open_store(self.topology(), self.config, name_of(name), timestamped=timestamped)

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
        from millstream.runtime.handle import interrupted_by_sigterm  # noqa: PLC0415  (as above)

        with interrupted_by_sigterm():
            handle = self.start(until_caught_up=until_caught_up, on_state_change=on_state_change)
            try:
                handle.wait()
            except KeyboardInterrupt:
                handle.stop()
                handle.wait()

    def _serde(self, hint: Any, part: str) -> Serde[Any] | None:
        return None if hint is None else serde_for(hint, part)


def _offset_reset(value: str | None) -> str | None:
    if value is not None:
        try:
            offset_reset("offset_reset", value)
        except ConfigError as error:
            raise TopologyError(error.message, hint=error.hint) from None
    return value


def _timestamps(builder: Builder, value: Serde[Any], option: TimestampOption, on_invalid: OnInvalid) -> Timestamps:
    if on_invalid not in {"fail", "skip", "partition_time"}:
        raise TopologyError(
            f"on_invalid_timestamp: {on_invalid!r} is not known", hint="use 'fail', 'skip' or 'partition_time'"
        )
    if option is None:
        return Timestamps(on_invalid=on_invalid)
    if isinstance(option, str):
        if option == "wall_clock":
            return Timestamps("wall_clock")
        return Timestamps("function", builder.function(col(option), ("key", "value"), "timestamp", value=value))
    roles: tuple[str, ...] = ("key", "value")
    if isinstance(option, Expr):
        roles = ("key", "value", "timestamp")
    count = None if isinstance(option, Expr) else arity(option)
    if count is not None and count[0] > 2:
        roles = ("key", "value", "timestamp", "partition_time")
    return Timestamps("function", Function(option, roles, "timestamp"))
