"""Adds the operators of a planned query to an application."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from millstream.core.frozen import replace
from millstream.core.records import Windowed
from millstream.dsl.app import App
from millstream.dsl.internals import internals_of
from millstream.dsl.options import Materialized
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.dsl.windows import hopping, join_window, session, tumbling
from millstream.expr import value as whole_value
from millstream.serde import Serde
from millstream.sql.binder.rewrite import column_refs
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import ROWOFFSET, ROWPARTITION, DataSource, WindowInfo
from millstream.sql.lowering.aggregates import (
    AggregateArguments,
    Aggregator,
    Counter,
    Exploder,
    GroupResult,
    counts_rows,
)
from millstream.sql.lowering.functions import Condition, KeyExpressions, Projection
from millstream.sql.lowering.rows import RowBuilder, RowBuilderWithHeaders, RowProcessor
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.timestamps import CheckedTimestamps, SinkTimestamps, TimestampReader, record_times
from millstream.sql.planner.aggregation import grace_of
from millstream.sql.planner.calls import aggregate_arguments
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import (
    Aggregate,
    Explode,
    Filter,
    JoinStep,
    PlannedQuery,
    Project,
    Read,
    Rekey,
    Step,
)
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType

_DAY = 24 * 60 * 60 * 1000
Node = Stream[Any, Any] | Table[Any, Any]


class QueryLowering:
    """Adds queries to an application.

    Attributes:
        app: The application.
        environment: Functions and types.
        serdes: The serdes of sources, sinks and stores.
        connected: The names of streams and tables that no other query writes: later queries take the result of the
            query itself instead of reading its topic, so that its records come in the order of time with those of
            other sources.
    """

    def __init__(self, app: App, environment: Environment, serdes: SourceSerdes) -> None:
        self.app = app
        self.environment = environment
        self.serdes = serdes
        self.query_name = ""
        self.connected: frozenset[str] = frozenset()
        self._results: dict[str, Stream[Any, Any]] = {}
        self._names: dict[str, int] = {}
        self._streams: dict[tuple[str, WindowInfo | None], Stream[Any, Any]] = {}

    @property
    def _throws(self) -> bool:
        """Whether an invalid time of a record stops the query."""
        return str(self.environment.properties.get("ksql.timestamp.throw.on.invalid", "false")).lower() == "true"

    def add(self, query: PersistentQuery) -> Stream[Any, Any]:
        """Adds a query that writes its result to the topic of its sink; returns the stream of what it writes."""
        sink = query.sink
        self._begin(query.name)
        stream = self._stream_of_results(query.planned.root)
        if sink.timestamp is not None:
            reader = TimestampReader(sink, fails=self._throws)
            stream = stream.process_values(partial(SinkTimestamps, reader), value=self.serdes.value(sink))
        stream.to(sink.topic, key=self.serdes.key(sink), value=self.serdes.value(sink))
        if query.id == sink.query and _is_exact(sink) and sink.name in self.connected:
            self._results[sink.name] = stream
        return stream

    def add_rows(self, planned: PlannedQuery, name: str) -> Node:
        """Adds a query whose result is not written; returns its rows."""
        self._begin(name)
        return self.node(planned.root)

    def _begin(self, name: str) -> None:
        """Begins a query; its operators with state have names that queries before it do not change."""
        self.query_name = name
        self._names.clear()

    def _name(self, kind: str) -> str:
        number = self._names[kind] = self._names.get(kind, 0) + 1
        return f"{self.query_name}-{kind}" if number == 1 else f"{self.query_name}-{kind}-{number}"

    def _stream_of_results(self, step: Step) -> Stream[Any, Any]:
        """Returns the results of a query as a stream: it projects the rows of a table like those of a stream."""
        if isinstance(step, Project) and isinstance(step.parent, Aggregate):
            stream: Stream[Any, Any] = self._projected(step, self._stream_of_results(step.parent))
            return stream
        if isinstance(step, Aggregate):
            aggregated, result = self._aggregated(step)
            return aggregated.to_stream().map_values(result, value=self.serdes.row(step.types))
        node = self.node(step)
        return node.to_stream() if isinstance(node, Table) else node

    def node(self, step: Step) -> Node:
        """Adds the operators of a step, and returns their result."""
        match step:
            case Read():
                return self._read(step)
            case Filter():
                return self._filter(step)
            case Rekey():
                return self._rekey(step)
            case JoinStep():
                return self._join(step)
            case Aggregate():
                return self._aggregate(step)
            case Explode():
                return self._explode(step)
            case Project():
                return self._project(step)
        raise AssertionError(f"{type(step).__name__} is not a step")

    def _used(self, step: Step, expressions: Iterable[tree.Expression]) -> Node:
        """Returns the rows of a step; only these expressions are used, so a stream is read without other columns."""
        used = list(expressions)
        conditions = []
        while isinstance(step, Filter) and step.kind == "STREAM":
            conditions.append(step)
            step = step.parent
        if step.kind == "TABLE" or not isinstance(step, Read):
            return self.node(conditions[0] if conditions else step)
        used += [each.condition for each in conditions]
        names = {ref.name for expression in used for ref in column_refs(expression)}
        columns = tuple(column for column in step.renamed if column[2] in names)
        plain = RowBuilder(step.source, columns).plain
        node = self._source(step) if plain else self._rows(step, columns)
        for each in reversed(conditions):
            node = node.filter(self._condition(each))
        return node

    def _read(self, step: Read, *, materialized: bool = False) -> Node:
        source, row = step.source, self.serdes.row(step.types)
        stream = self._rows(step, step.renamed)
        if not source.is_table:
            return stream
        store = f"{self.query_name}-{source.name}" if materialized else None
        key = self.serdes.key(replace(source, window=step.window))
        return stream.to_table(store=store, key=key, value=row, name=self._name(source.name))

    def _rows(self, step: Read, columns: Sequence[tuple[str, str, str]]) -> Stream[Any, Any]:
        """Returns the rows of a source, with some of the columns of the step."""
        source, types = step.source, step.types
        stream = self._source(step)
        builder = RowBuilder(source, columns)
        row = self.serdes.row({internal: types[internal] for _role, _name, internal in columns})
        if builder.needs_record:
            return stream.process_values(partial(RowProcessor, builder), value=row)
        if builder.needs_headers:
            with_headers: Any = RowBuilderWithHeaders(source, columns)
            return stream.map_values(with_headers, value=row)
        return stream.map_values(whole_value() if builder.plain else builder, value=row)

    def _source(self, step: Read) -> Stream[Any, Any]:
        """Returns the stream of a topic or of a query that writes it; all queries of the application share it."""
        place = (step.source.name, step.window)
        read_records = any(name in {ROWPARTITION, ROWOFFSET} for _role, name, _internal in step.renamed)
        if step.source.name in self._results and step.window is None and not read_records:
            return self._results[step.source.name]
        if place not in self._streams:
            key = self.serdes.key(replace(step.source, window=step.window))
            self._streams[place] = self._timed_stream(step.source, key, self.serdes.value(step.source))
        return self._streams[place]

    def source_stream(self, source: DataSource) -> Stream[Any, Any]:
        """Returns a stream of a source's topic."""
        return self._timed_stream(source, self.serdes.key(source), self.serdes.value(source))

    def _timed_stream(self, source: DataSource, key: Serde[Any], value: Serde[Any]) -> Stream[Any, Any]:
        options: dict[str, Any] = {"key": key, "value": value}
        if source.is_table and self.app.config["auto.offset.reset"] != "earliest":
            options["offset_reset"] = "earliest"  # a table has its rows from the beginning, wherever streams begin
        if source.timestamp is None:
            return self.app.stream(source.topic, **options, **record_times(self.environment.properties))
        if not self._throws:
            return self.app.stream(source.topic, timestamp=TimestampReader(source), **options)
        stream = self.app.stream(source.topic, timestamp=TimestampReader(source, invalid=0), **options)
        return stream.process_values(partial(CheckedTimestamps, TimestampReader(source, fails=True)), value=value)

    def _filter(self, step: Filter) -> Node:
        condition = self._condition(step)
        if step.kind == "TABLE" and isinstance(step.parent, Read):
            # A filter of a table that is materialized knows which rows passed before, and deletes only those.
            return self._read(step.parent, materialized=True).filter(condition)
        return self.node(step.parent).filter(condition)

    def _condition(self, step: Filter) -> Condition:
        return Condition((step.condition,), step.types, self.environment)

    def _rekey(self, step: Rekey) -> Node:
        parent = self.node(step.parent)
        assert isinstance(parent, Stream)
        key = KeyExpressions(step.expressions, step.types, self.environment)
        rekey = _NewKey(key, [column.name for column in step.parent.key], list(step.parent.types))
        return parent.select_key(rekey, key=self.serdes.inner_key(step.key))

    def _explode(self, step: Explode) -> Node:
        parent = self.node(step.parent)
        assert isinstance(parent, Stream)
        exploder = Exploder(step.items, step.parent.types, self.environment)
        return parent.flat_map_values(exploder, value=self.serdes.row(step.types))

    def _project(self, step: Project) -> Node:
        used = (expression for _name, expression in step.items)
        return cast("Node", self._projected(step, self._used(step.parent, used)))

    def _projected(self, step: Project, parent: Any) -> Any:
        projection = Projection(step.items, step.parent.types, self.environment)
        return parent.map_values(projection, value=self.serdes.row(step.types))

    # ----- aggregations ----------------------------------------------------------------------------------------------

    def _aggregate(self, step: Aggregate) -> Node:
        aggregated, result = self._aggregated(step)
        return aggregated.map_values(result, value=self.serdes.row(step.types))

    def _aggregated(self, step: Aggregate) -> tuple[Table[Any, Any], GroupResult]:
        """Returns the table of states, and the function that makes rows of them."""
        used = [argument for item in step.aggregates for argument in aggregate_arguments(item)]
        if not step.by_key or step.parent.kind == "TABLE":  # other groups are the keys of records
            used += step.groups
        parent, columns = self._used(step.parent, used), step.parent.types
        arguments = AggregateArguments(step.aggregates, columns, self.environment)
        counts = all(counts_rows(item) for item in step.aggregates)
        aggregator = (Counter if counts else Aggregator)(step.aggregates, columns, self.environment)
        result = GroupResult(aggregator, [column.name for column in step.key], windowed=step.by_window is not None)
        key = KeyExpressions(step.groups, columns, self.environment, complete=True)
        inner, row = self.serdes.inner_key(step.key, step.groups), self.serdes.row(arguments.types)
        grouped: Any
        if isinstance(parent, Table):
            grouped = parent.group_by(_GroupPair(key, arguments), key=inner, value=row)
        else:
            rows = parent.filter(whole_value().is_not_null())
            if not step.by_key:
                rows = rows.select_key(_OfValue(key), key=inner)
            if not counts or not step.by_key:
                rows = rows.map_values(arguments, value=row)
            grouped = rows.group_by_key()
            if step.by_window is not None:
                grouped = grouped.windowed_by(_window(step.by_window), emit="close" if step.final else "update")
        options: dict[str, Any] = {"name": self._name("aggregate")}
        if step.by_window is not None and step.by_window.retention is not None:
            options["store"] = Materialized(retention=step.by_window.retention)
        if counts:
            return grouped.count(**options), result
        functions = [aggregator.initial, aggregator.add]
        if isinstance(parent, Table):
            functions.append(aggregator.undo)
        elif step.by_window is not None and step.by_window.kind == "SESSION":
            functions.append(aggregator.merge)
        return grouped.aggregate(*functions, value=self.serdes.state(aggregator.state), **options), result

    # ----- joins -----------------------------------------------------------------------------------------------------

    def _join(self, step: JoinStep) -> Node:
        left: Any = self.node(step.left)
        right: Any = self.node(_with_window_of(step.left, step.right))
        joiner = _Joiner(
            tuple(name for name, _type in step.left.columns),
            tuple(name for name, _type in step.right.columns),
            step.key_column,
            swapped=step.how == "RIGHT",
        )
        value = self.serdes.row(step.types)
        options: dict[str, Any] = {"value": value, "name": self._name("join")}
        if step.foreign_key is not None:
            foreign = KeyExpressions((step.foreign_key,), step.left.types, self.environment)
            join = left.join if step.how == "INNER" else left.left_join
            return cast("Node", join(right, joiner, on=_OfValue(foreign), **options))
        left, right = self._same_keys(step, left, right)
        if step.how == "RIGHT":
            left, right = right, left
        if step.within is not None:
            within = step.within
            before, after = (within.before, within.after) if step.how != "RIGHT" else (within.after, within.before)
            options["window"] = join_window(
                before=before,
                after=after,
                grace=_DAY - min(_DAY, within.before + within.after) if within.grace is None else within.grace,
                eager=within.grace is None,
            )
        join = {"INNER": "join", "FULL": "outer_join"}.get(step.how, "left_join")
        return cast("Node", getattr(left, join)(right, joiner, **options))

    def _same_keys(self, step: JoinStep, left: Any, right: Any) -> tuple[Any, Any]:
        """Writes the keys of both sides in the same form, if they are not: equal keys must have equal bytes."""
        keys = [internals_of(side).key_serde.name for side in (left, right)]
        if keys[0] == keys[1]:
            return left, right
        inner = self.serdes.inner_key(step.key)
        return tuple(
            side if name == inner.name else self._with_key_serde(side, inner, columns.types)
            for side, name, columns in zip((left, right), keys, (step.left, step.right), strict=True)
        )  # type: ignore[return-value]

    def _with_key_serde(self, side: Node, key: Serde[Any], columns: dict[str, SqlType]) -> Node:
        if isinstance(side, Table):
            return side.to_stream().select_key(_key_itself, key=key).to_table(key=key, value=self.serdes.row(columns))
        return side.select_key(_key_itself, key=key)


def _with_window_of(left: Step, right: Step) -> Step:
    """Returns the right side of a join with windows of the left side's size.

    Keys of time windows contain only the start, and keys with equal starts match.
    """
    if not isinstance(right, Read) or left.window is None or right.window is None or left.window.size is None:
        return right
    return replace(right, window=replace(right.window, size=left.window.size))


def _key_itself(key: Any, _value: Any) -> Any:
    return key


def _is_exact(sink: DataSource) -> bool:
    """Whether a record that is read from the topic of a sink is the one that was written."""
    exact = sink.value_format.name in {"JSON", "JSON_SR", "AVRO"} and sink.value_format.wrap is not False
    return (
        exact and sink.key_format.name in {"KAFKA", "JSON", "NONE"} and sink.timestamp is None and sink.window is None
    )


class _Joiner:
    """Puts two rows together; the columns of a missing row are null."""

    def __init__(self, left: tuple[str, ...], right: tuple[str, ...], key_column: str | None, *, swapped: bool) -> None:
        self.no_left = dict.fromkeys(left)
        self.no_right = dict.fromkeys(right)
        self.key_column = key_column
        self.swapped = swapped

    def __call__(self, key: Any, left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
        if self.swapped:
            left, right = right, left
        row = {**(self.no_left if left is None else left), **(self.no_right if right is None else right)}
        if self.key_column is not None:
            row[self.key_column] = key
        return row


class _Pair:
    """The key of a group and the arguments of its aggregate functions."""

    def __init__(self, key: KeyExpressions, arguments: AggregateArguments) -> None:
        self.key = key
        self.arguments = arguments

    def __call__(self, _key: Any, row: dict[str, Any]) -> tuple[Any, Any]:
        return self.key(row), self.arguments(row)


class _GroupPair(_Pair):
    """The same for rows of tables."""


class _NewKey:
    """The new key of a record; for a null value, it is computed from the old key."""

    pure = True

    def __init__(self, function: KeyExpressions, keys: list[str], columns: list[str]) -> None:
        self.function = function
        self.keys = keys
        self.columns = columns

    def __call__(self, key: Any, row: dict[str, Any] | None) -> Any:
        if row is not None:
            return self.function(row)
        plain = key.key if isinstance(key, Windowed) else key
        old = (
            (plain,) if len(self.keys) == 1 else plain if self.keys and plain is not None else (None,) * len(self.keys)
        )
        return self.function({**dict.fromkeys(self.columns), **dict(zip(self.keys, old, strict=True))})

    def for_all(self, keys: Sequence[Any], rows: Sequence[dict[str, Any] | None]) -> list[Any]:
        return list(map(self, keys, rows)) if None in rows else self.function.for_all(rows)


class _OfValue:
    """A function of key and value that reads the value."""

    pure = True

    def __init__(self, function: KeyExpressions) -> None:
        self.function = function

    def __call__(self, _key: Any, value: dict[str, Any] | None) -> Any:
        return self.function(value)

    def for_all(self, _keys: Sequence[Any], values: Sequence[dict[str, Any] | None]) -> list[Any]:
        return self.function.for_all(values)


def _window(window: tree.Window) -> Any:
    grace = grace_of(window)
    if window.kind == "TUMBLING":
        return tumbling(window.size, grace=grace)
    if window.kind == "HOPPING":
        assert window.advance is not None
        return hopping(window.size, window.advance, grace=grace)
    return session(window.size, grace=grace)
