"""The application: the entry point for building and running a topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from millstream.config import Config, Settings
from millstream.core.callsite import caller
from millstream.core.durations import Duration
from millstream.core.names import check_name
from millstream.dsl.connectors import ConnectorOptions
from millstream.dsl.inputs import GlobalTableOptions, Inputs, StreamOptions, TableOptions
from millstream.dsl.internals import DslObject, declared_serde
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
    from millstream.config import Mode
    from millstream.connect import Connector, Sink, Source
    from millstream.runtime.facade import Handle, Listener
    from millstream.stages import Topology
    from millstream.stages.describe import Format
    from millstream.state.stores import ReadOnlyKeyValueStore

K = TypeVar("K")
V = TypeVar("V")

Typed = type[K] | Serde[K]
"""A type, from which the serde is derived, or the serde itself."""


@suggesting_methods
class App(DslObject[Inputs]):
    """An application: a topology of streams and tables, and its configuration.

    Args:
        application_id: Name of the application, and prefix of its internal topics.
        config: Configuration by Kafka's keys.
        **options: Configuration with underscores for dots: ``topology_optimization="all"``. Keys with a prefix, for
            Spark and for Kafka's clients, go into ``config``.

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
        self._connectors: dict[str, Connector] = {}
        super().__init__(Inputs(Builder(self.id, self.config)))

    def __repr__(self) -> str:
        return f"App({self.id!r})"

    def _repr_html_(self) -> str:
        """Renders the topology as a picture, for notebooks."""
        from html import escape  # noqa: PLC0415  (only a notebook needs it)

        try:
            body = self.describe("svg")
        except MillstreamError as error:
            body = f"<pre>{escape(str(error))}</pre>"
        return f"<div><div><b>{escape(repr(self))}</b></div>{body}</div>"

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
        """Reads one or more topics, or all topics whose names match a pattern, as a stream.

        Args:
            *topics: Names of the topics.
            key: Serde of the keys: a type (``str``, ``int``, a dataclass, …) or a `Serde`.
            value: Serde of the values.
            pattern: Regular expression that matches the whole names of the topics, in place of ``topics``.
            timestamp: The source of event time. Default: the timestamp of the record. ``"wall_clock"``: the wall
                clock. Any other string: a field of the value, in milliseconds. A function or expression: it returns
                milliseconds, and takes the value, or key and value, or key, value, record timestamp and partition
                time. If the field or function yields None or a negative number, the record is dropped (and counted).
            on_invalid_timestamp: How a negative record timestamp is handled: ``"fail"`` stops the application,
                ``"skip"`` drops the record (and counts it), ``"partition_time"`` uses the greatest timestamp seen in
                the partition.
            offset_reset: Where the first start of the application begins to read: ``"earliest"``, ``"latest"``,
                ``"none"`` or ``"by_duration:1h"``. Default: ``auto.offset.reset``.
            contract: The `contract` of the records: conditions that they must meet.
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
        """Reads a topic as a table: the latest value of each key. A record with a null value deletes the row.

        Args:
            topic: Name of the topic.
            key: Serde of the keys.
            value: Serde of the values.
            store: Name of the store, or `Materialized`, with ``history=…`` for a versioned table. Without a name, the
                table is materialized only if an operator looks up its rows.
            ttl: A row that was not updated for this long in stream time is deleted.
            timestamp: As for `stream`.
            on_invalid_timestamp: As for `stream`.
            contract: As for `stream`. Records that violate it do not change the table.
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
        **options: Unpack[GlobalTableOptions],
    ) -> GlobalTable[Any, Any]:
        """Reads a topic as a table of which every task has a full copy, so that a stream can join it by any key.

        The copies take memory in every task: use it for small tables that change slowly.

        Args:
            topic: Name of the topic.
            key: Serde of the keys.
            value: Serde of the values.
            store: Name of the store, or `Materialized`.
            contract: As for `stream`.
            name: Name of the operator.
        """
        check_options("global_table", options, GlobalTableOptions, "key", "value")
        return GlobalTable(self._internals.global_table(topic, key, value, options))

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
        """Adds a store, which processors use by name: `Stream.process`.

        Args:
            name: Name of the store.
            kind: ``key-value``, ``timestamped`` (key-value with a timestamp beside each value), ``window``,
                ``session`` or ``versioned``.
            key: Serde of the keys.
            value: Serde of the values.
            retention: How long window, session and versioned stores retain their rows.
            window_size: Size of the windows of a window store.
            duplicates: Whether a window store retains several rows of one key and time.
            logging: Whether the store has a changelog.
            view: Whether the store can be queried from outside.
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

    def connect(self, name: str, plugin: Source | Sink, **options: Unpack[ConnectorOptions]) -> None:
        """Adds a connector, which runs beside the topology in the process that starts the application.

        A source appends the records of another system to topics. A sink writes the records of topics to another
        system. Each keeps its position with the data: a crash at any moment loses and doubles nothing, as far as the
        plugin promises.

        Args:
            name: The name of the connector. Its position is recorded under this name.
            plugin: The `Source` or `Sink`.
            key: A source: the converter of keys, ``"json"``, ``"json-schemas"``, ``"avro"``, or a type or serde. A
                sink: the serde of keys.
            value: The same for values.
            transforms: Functions that take a record and return it, a changed copy (`SourceRecord.replace`), several
                in a list, or None to drop it.
            on_error: ``"fail"``: the connector fails at a record that cannot be transformed, converted or written.
                ``"continue"``: such records are dropped and counted.
            partitions: The number of partitions of topics that a source creates.
            topic_config: The configuration of topics that a source creates.
            topics: The topics of a sink.
            dead_letter_topic: The topic to which a sink with ``on_error="continue"`` writes the records.
            tasks: The number of tasks of a sink, among which the partitions are divided.
            offset_reset: Where a sink begins: ``"earliest"`` or ``"latest"``.

        Raises:
            ConfigError: An option is wrong, or there is another connector of that name.

        >>> from millstream.connect import Sink, SinkWriter
        >>> class Printer(SinkWriter):
        ...     def positions(self, partitions):
        ...         return None
        ...
        ...     def write(self, records, offsets):
        ...         print([record.value for record in records])
        >>> class Print(Sink):
        ...     promise, reason = "at least once", "a terminal keeps no offsets"
        ...
        ...     def open(self, context):
        ...         return Printer()
        >>> from tempfile import mkdtemp
        >>> from millstream.log import ProducerRecord, open_log
        >>> directory = mkdtemp()
        >>> with open_log(directory) as log:
        ...     _ = log.create_topic("clicks")
        ...     _ = log.produce("clicks", [ProducerRecord(b"alice", b'"/help"')])
        >>> app = App("printer", state_dir=directory, status="none")
        >>> app.connect("terminal", Print(), topics=["clicks"])
        >>> app.run(until_caught_up=True)
        ['/help']
        """
        from millstream.connect import connector_of  # noqa: PLC0415  (as above)

        self.add_connector(connector_of(name, plugin, options))

    def add_connector(self, connector: Connector) -> None:
        """Adds a connector of a configuration: see `connect`.

        Raises:
            ConfigError: There is another connector of that name.
        """
        if connector.name in self._connectors:
            name = connector.name
            raise ConfigError(f"application {self.id!r} has two connectors {name!r}", hint="give each its own name")
        self._connectors[connector.name] = connector

    @property
    def connectors(self) -> tuple[Connector, ...]:
        """The connectors."""
        return tuple(self._connectors.values())

    def plan(self) -> Plan:
        """Returns the topology as a plan, before optimisation."""
        return self._internals.builder.plan()

    def topology(self) -> Topology:
        """Returns the topology as it runs: optimised as configured, and cut into sub-topologies."""
        from millstream.optimize import optimize  # noqa: PLC0415  (imported on demand, to keep the import of the package short)
        from millstream.optimize.bind_serdes import bind_serdes  # noqa: PLC0415
        from millstream.schemas.registries import registry_of  # noqa: PLC0415
        from millstream.stages import cut  # noqa: PLC0415

        plan = optimize(self.plan(), self.config["topology.optimization"])
        return cut(bind_serdes(plan, registry_of(self.id, self.config)))

    def sql(self, script: str, *, source: str | None = None) -> None:
        """Adds the statements of a SQL script, in ksqlDB's dialect, to the topology.

        A script has definitions: CREATE STREAM and TABLE, CREATE … AS SELECT, INSERT INTO … SELECT, CREATE TYPE, SET
        and DEFINE. Every query writes the topic of its stream or table. Later scripts of the application see the
        streams and tables of earlier ones. A topic that Python operators write is a stream of SQL like any other.

        Args:
            script: The statements.
            source: The name of the file with the script, for messages.

        Raises:
            SqlError: A statement is invalid; with its line, and a mark under the place.

        >>> from millstream import App, TestDriver
        >>> app = App("views", deserialization_exception_handler="continue")
        >>> app.sql('''
        ...     CREATE STREAM pageviews (userid STRING KEY, page STRING)
        ...         WITH (kafka_topic='pageviews', value_format='JSON');
        ...     CREATE TABLE per_user AS
        ...         SELECT userid, COUNT(*) AS views FROM pageviews GROUP BY userid EMIT CHANGES;
        ... ''')
        >>> with TestDriver(app) as driver:
        ...     driver.input("pageviews", key=str, value=bytes).pipe("ann", b'{"page": "home"}')
        ...     driver.output("PER_USER", key=str, value=str).read_values()
        ['{"VIEWS":1}']
        """
        from millstream.sql.application import add_sql  # noqa: PLC0415  (loaded on first use)

        add_sql(self, script, source)

    def stream_from_sql(self, query: str) -> Stream[Any, dict[str, Any]]:
        """Returns the rows of a SQL query as a stream, for operators in Python.

        A row is a dict with all columns of the query, by name. A key of several columns is a tuple. Nothing is written:
        the query is a part of the topology. Its sources are the streams and tables that `sql` has defined.

        Args:
            query: A SELECT without LIMIT; EMIT CHANGES may be left out.

        Raises:
            SqlError: The query is invalid, or makes a table.

        >>> from millstream import App, TestDriver
        >>> app = App("slow", deserialization_exception_handler="continue")
        >>> app.sql('''
        ...     CREATE STREAM pageviews (userid STRING KEY, ms BIGINT)
        ...         WITH (kafka_topic='pageviews', value_format='JSON');
        ... ''')
        >>> slow = app.stream_from_sql("SELECT userid, ms / 1000 AS secs FROM pageviews WHERE ms > 1000")
        >>> slow.map_values(lambda row: f"{row['USERID']}: {row['SECS']} s", value=str).to("slow", key=str)
        >>> with TestDriver(app) as driver:
        ...     driver.input("pageviews", key=str, value=bytes).pipe("ann", b'{"ms": 3500}')
        ...     driver.output("slow").read_values()
        ['ann: 3 s']
        """
        from millstream.sql.application import rows_of  # noqa: PLC0415  (as above)

        stream: Stream[Any, dict[str, Any]] = rows_of(self, query, "STREAM")
        return stream

    def table_from_sql(self, query: str) -> Table[Any, dict[str, Any]]:
        """Returns the rows of a SQL query as a table, for operators in Python; see `stream_from_sql`.

        Raises:
            SqlError: The query is invalid, or makes a stream.

        >>> from millstream import App, TestDriver
        >>> app = App("vips", deserialization_exception_handler="continue")
        >>> app.sql('''
        ...     CREATE STREAM orders (customer STRING KEY, amount INT)
        ...         WITH (kafka_topic='orders', value_format='JSON');
        ... ''')
        >>> vips = app.table_from_sql(
        ...     "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer HAVING SUM(amount) > 100"
        ... )
        >>> vips.to_stream().map_values(lambda row: row and row["TOTAL"], value=int).to("vips", key=str)
        >>> with TestDriver(app) as driver:
        ...     orders = driver.input("orders", key=str, value=bytes)
        ...     orders.pipe("ann", b'{"amount": 70}')
        ...     orders.pipe("ann", b'{"amount": 50}')
        ...     driver.output("vips").read_values()
        [120]
        """
        from millstream.sql.application import rows_of  # noqa: PLC0415  (as above)

        table: Table[Any, dict[str, Any]] = rows_of(self, query, "TABLE")
        return table

    def describe(self, format: Format = "text") -> str:
        """Describes the topology as it runs.

        Input topics that are joined and have different numbers of partitions are repartitioned in real-time and local
        execution. The numbers are known when the application has started: `Handle.describe`.

        Args:
            format: ``text`` (the format of Kafka Streams, which existing visualisers read), ``mermaid``, ``svg`` or
                ``json``.
        """
        from millstream.stages.describe import describe  # noqa: PLC0415  (as above)

        topology = self.topology()
        if self.config["execution.mode"] != "micro_batch":
            from millstream.runtime import facade  # noqa: PLC0415  (as above)

            topology = facade.repartitioned(topology, self.config)
        return describe(topology, format)

    def fingerprint(self) -> str:
        """Returns a short digest of everything in the topology that the state of the application depends on.

        Equal topologies have equal fingerprints. Names and line numbers of functions are not part of it.
        """
        from millstream.plan.fingerprint import fingerprint  # noqa: PLC0415

        return fingerprint(self.topology().plan)

    def start(
        self,
        *,
        mode: Mode | None = None,
        until_caught_up: bool = False,
        on_state_change: Listener | None = None,
    ) -> Handle:
        """Starts the application in the background.

        Args:
            mode: ``"micro_batch"``: as a streaming query of Spark. ``"real_time"``: in long-lived workers on Spark,
                with results after milliseconds. ``"local"``: in such workers in this process, without Spark and Java.
                Default: ``execution.mode`` of the configuration, ``"micro_batch"`` unless it is set.
            until_caught_up: Process the records that are in the topics now, then stop.
            on_state_change: Called with the new and the old state at each change, from CREATED to STARTING on.

        Returns:
            A handle that stops the application and gives access to its state, metrics and stores.

        Raises:
            SetupError: The application cannot start: Java is missing, another instance is running, a topic is missing,
                the topology is incompatible with the stored state, or the application has run in another mode.

        >>> from tempfile import mkdtemp
        >>> from millstream import App
        >>> from millstream.log import ProducerRecord, open_log
        >>> directory = mkdtemp()
        >>> with open_log(directory) as log:
        ...     _ = log.create_topic("clicks", partitions=1)
        ...     _ = log.produce("clicks", [ProducerRecord(b"alice", b"/"), ProducerRecord(b"alice", b"/help")])
        >>> app = App("clicks-by-user", state_dir=directory, status="none")
        >>> clicks = app.stream("clicks", value=str).group_by_key().count(store="clicks-by-user")
        >>> with app.start(mode="local", until_caught_up=True) as handle:
        ...     handle.wait()
        ...     handle.store(clicks).get("alice")
        True
        2
        """
        from millstream.runtime import facade  # noqa: PLC0415  (as above)

        return facade.start(
            self.topology(),
            self._configuration(mode),
            until_caught_up=until_caught_up,
            on_state_change=on_state_change,
            connectors=self.connectors,
        )

    def _configuration(self, mode: Mode | None) -> Config:
        """The configuration, with another execution mode if there is one."""
        return self.config if mode is None else Config({**self.config.explicit, "execution.mode": mode})

    @overload
    def store(self, name: Table[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: GlobalTable[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: str, *, timestamped: bool = False) -> Any: ...
    def store(self, name: str | Table[Any, Any] | GlobalTable[Any, Any], *, timestamped: bool = False) -> Any:
        """Opens a named store for queries. The application may run in this process, in another one, or not at all.

        Queries read the state of the last committed batch.

        Args:
            name: The name of the store; or its table, from which type checkers infer the types of keys and values.
            timestamped: Also return the timestamps that are stored with the values.

        Raises:
            UnknownStoreError: The store does not exist, or no batch that writes to it was committed yet.
        """
        from millstream.runtime import facade  # noqa: PLC0415  (as above)

        return facade.open_store(self.topology(), self.config, name_of(name), timestamped=timestamped)

    def run(
        self,
        *,
        mode: Mode | None = None,
        until_caught_up: bool = False,
        on_state_change: Listener | None = None,
        serve: str | bool | None = None,
    ) -> None:
        """Runs the application until it is interrupted, or has caught up.

        On Ctrl-C or SIGTERM, the application publishes what it has processed if that takes no longer than a few
        seconds, and stops within ten seconds. A second signal stops it at once.

        Args:
            mode: Where and how it runs, as for `start`: ``"micro_batch"``, ``"real_time"`` or ``"local"``.
            until_caught_up: Process the records that are in the topics now, then stop.
            on_state_change: Called with the new and the old state at each change, from CREATED to STARTING on.
            serve: Host and port at which a process beside the application serves its stores and the web console, such
                as ``"127.0.0.1:8088"``; True: this address.

        Raises:
            MillstreamError: The application could not start, or failed.

        >>> from tempfile import mkdtemp
        >>> from millstream import App
        >>> from millstream.log import ProducerRecord, open_log
        >>> directory = mkdtemp()
        >>> with open_log(directory) as log:
        ...     _ = log.create_topic("lines", partitions=1)
        ...     _ = log.produce("lines", [ProducerRecord(None, b"to be or not to be")])
        >>> app = App("word-count", state_dir=directory, status="none")
        >>> words = app.stream("lines", value=str).flat_map_values(str.split)
        >>> counts = words.group_by(lambda word: word).count(store="counts")
        >>> app.run(mode="local", until_caught_up=True)
        >>> app.store(counts).get("be")
        2
        """
        from millstream.runtime import facade  # noqa: PLC0415  (as above)

        facade.run(
            self.topology(),
            self._configuration(mode),
            until_caught_up=until_caught_up,
            on_state_change=on_state_change,
            serve=serve,
            connectors=self.connectors,
        )
