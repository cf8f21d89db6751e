"""Adds the operator that reads a stream as a table."""

from __future__ import annotations

from millstream.core.callsite import caller
from millstream.core.durations import Duration
from millstream.dsl.compositions import expire
from millstream.dsl.internals import NodeOutput
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value
from millstream.plan.sources import ToTable


def make_table(
    stream: NodeOutput,
    *,
    store: str | Materialized | None,
    ttl: Duration | None,
    name: str | None,
    source_topic: str | None = None,
) -> NodeOutput:
    """Reads a stream as a table.

    Args:
        stream: The stream.
        store: Name of the store, or `Materialized`.
        ttl: How long a row lives without an update.
        name: Name of the operator.
        source_topic: The topic, if the stream is unchanged from it.
    """
    builder = stream.builder
    options = Materialized.of(store)
    if source_topic is None:
        label = builder.name(name, "to-table", stream.node)
    else:
        label = builder.name(name, f"{source_topic}-table", base="")
    stream = stream.copartitioned(options.name if options.name is not None else name, label)
    if ttl is not None:
        stream = expire(stream, ttl, label)
    spec = key_value(options, f"{label}-store", stream.key_serde, stream.value_serde)
    node = ToTable(
        name=label,
        at=caller(),
        parent=stream.node,
        store=spec,
        source_topic=None if ttl is not None else source_topic,  # a row that expired is still in the topic
    )
    builder.add(node, lineage=options.name or source_topic or label)
    return NodeOutput(builder, node, spec.key, spec.value)
