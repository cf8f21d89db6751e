"""Adds the inputs of an application to its topology: streams, tables and global tables that are read from topics."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from millstream.config import offset_reset
from millstream.core.callsite import caller
from millstream.core.durations import Duration
from millstream.core.frozen import Frozen
from millstream.core.names import check_name
from millstream.dsl.contracts import ContractOption, contract_on_read
from millstream.dsl.internals import KEY_VALUE, NodeOutput, declared_serde
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value
from millstream.dsl.to_table import make_table
from millstream.errors import ConfigError, TopologyError
from millstream.expr import Expr, col
from millstream.plan.builder import shorten
from millstream.plan.functions import Function, arity
from millstream.plan.sources import GlobalTable, OnInvalid, Source, Timestamps
from millstream.serde.api import SerdeContext

if TYPE_CHECKING:
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

TimestampOption = str | Callable[..., int | None] | Expr | None


class StreamOptions(TypedDict, total=False):
    """Options of `App.stream`."""

    pattern: str | re.Pattern[str] | None
    timestamp: TimestampOption
    on_invalid_timestamp: OnInvalid
    offset_reset: str
    contract: ContractOption | None
    name: str | None


class TableOptions(TypedDict, total=False):
    """Options of `App.table`."""

    store: str | Materialized | None
    ttl: Duration | None
    timestamp: TimestampOption
    on_invalid_timestamp: OnInvalid
    contract: ContractOption | None
    name: str | None


class GlobalTableOptions(TypedDict, total=False):
    """Options of `App.global_table`."""

    store: str | Materialized | None
    contract: ContractOption | None
    name: str | None


class Inputs(Frozen):
    """The internal side of an `App`.

    Attributes:
        builder: The topology under construction.
    """

    builder: Builder

    def stream(self, topics: tuple[str, ...], key: Any, value: Any, options: StreamOptions) -> NodeOutput:
        """Adds a source, or returns an equal one that exists."""
        pattern = options.get("pattern")
        if bool(topics) == (pattern is not None):
            raise TopologyError("stream: pass either topics or a pattern", hint='app.stream("orders", …)')
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
                    f"stream: {expression!r} is not a valid regular expression: {error}",
                    hint="the pattern is a Python regular expression that matches whole names of topics",
                ) from error
        base = shorten("-".join(topics) if topics else f"pattern-{expression}")
        keys, values = self._serdes(key, value, topics[0] if topics else None)
        node = self.builder.source(
            Source(
                name=self.builder.name(options.get("name"), "source", base=base),
                at=caller(),
                topics=topics,
                pattern=expression,
                key=keys,
                value=values,
                timestamps=self._timestamps(values, options),
                offset_reset=_offset_reset(options.get("offset_reset")),
                contract=contract_on_read(self.builder, options.get("contract"), base, keys, values),
            )
        )
        return NodeOutput(self.builder, node, node.key, node.value)

    def table(self, topic: str, key: Any, value: Any, options: TableOptions) -> NodeOutput:
        """Adds a source that is read as a table."""
        check_name(topic, "topic")
        keys, values = self._serdes(key, value, topic)
        source = Source(
            name=self.builder.name(None, "source", base=topic),
            at=caller(),
            topics=(topic,),
            key=keys,
            value=values,
            timestamps=self._timestamps(values, options),
            contract=contract_on_read(self.builder, options.get("contract"), topic, keys, values),
        )
        self.builder.reserve_topic(topic, source)
        self.builder.add(source, lineage=topic)
        return make_table(
            NodeOutput(self.builder, source, keys, values),
            store=options.get("store"),
            ttl=options.get("ttl"),
            name=options.get("name"),
            source_topic=topic,
        )

    def global_table(self, topic: str, key: Any, value: Any, given: GlobalTableOptions) -> NodeOutput:
        """Adds a global table."""
        check_name(topic, "topic")
        options = Materialized.of(given.get("store"))
        if options.history is not None:
            raise TopologyError(
                "global_table: a global table cannot be versioned", hint="read the topic as a table to keep its history"
            )
        keys, values = self._serdes(key, value, topic)
        label = self.builder.name(given.get("name"), "global-table", base=topic)
        node = GlobalTable(
            name=label,
            at=caller(),
            topic=topic,
            key=keys,
            value=values,
            store=key_value(options, f"{label}-store", keys, values),
            contract=contract_on_read(self.builder, given.get("contract"), topic, keys, values),
        )
        self.builder.reserve_topic(topic, node)
        return NodeOutput(self.builder, self.builder.add(node), keys, values)

    def _serdes(self, key: Any, value: Any, topic: str | None) -> tuple[Serde[Any], Serde[Any]]:
        """The serdes that the user declared, else the application's.

        They are bound here, and again where the stream or table goes: a serde that takes the schemas of its records
        from a registry then knows from which topic the records came.
        """
        keys, values = declared_serde(key, "key"), declared_serde(value, "value")
        return (
            self.builder.serde(keys, "key").bind(SerdeContext(topic, is_key=True)),
            self.builder.serde(values, "value").bind(SerdeContext(topic, is_key=False)),
        )

    def _timestamps(self, value: Serde[Any], options: StreamOptions | TableOptions) -> Timestamps:
        option, on_invalid = options.get("timestamp"), options.get("on_invalid_timestamp", "fail")
        if on_invalid not in {"fail", "skip", "partition_time"}:
            raise TopologyError(
                f"on_invalid_timestamp: unknown value {on_invalid!r}", hint="use 'fail', 'skip' or 'partition_time'"
            )
        if option is None:
            return Timestamps(on_invalid=on_invalid)
        if isinstance(option, str):
            if option == "wall_clock":
                return Timestamps("wall_clock")
            return Timestamps("function", self.builder.function(col(option), KEY_VALUE, "timestamp", value=value))
        roles: tuple[str, ...] = KEY_VALUE
        if isinstance(option, Expr):
            roles = (*KEY_VALUE, "timestamp")
        count = None if isinstance(option, Expr) else arity(option)
        if count is not None and count[0] > 2:
            roles = (*KEY_VALUE, "timestamp", "partition_time")
        return Timestamps("function", Function(option, roles, "timestamp"))


def _offset_reset(value: str | None) -> str | None:
    if value is not None:
        try:
            offset_reset("offset_reset", value)
        except ConfigError as error:
            raise TopologyError(error.message, hint=error.hint) from None
    return value
