"""Operators that write records to topics: sinks and repartitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from millstream.core.names import check_name
from millstream.core.records import Headers
from millstream.engine.chunks import Bulk, Chunk
from millstream.engine.compile import Build, Process, in_bulk, operator
from millstream.engine.context import OutputBatch, OutputRecord, size_of
from millstream.engine.contracts import checked, checked_in_bulk, mask_of, write_failure
from millstream.engine.errors import FAILURES
from millstream.errors import ProductionError, SerializationError
from millstream.plan import stateless as plan
from millstream.plan.functions import Function
from millstream.plan.node import Node
from millstream.serde import Serde, SerdeContext
from millstream.serde.api import serializes_with_headers
from millstream.serde.windowed import window_bytes


@operator(plan.Sink)
def sink(node: plan.Sink, build: Build) -> Process:
    """Writes each record to a topic."""
    if isinstance(node.topic, Function):
        return checked(node, build.context, _dynamic_sink(node, node.topic, build))
    write = _writer(node, build, node.topic, node.key, node.value, node.partitioner)
    return checked(node, build.context, write)


@in_bulk(plan.Sink)
def write_all(node: plan.Sink, build: Build) -> Bulk | None:
    """Writes records to a topic. If one cannot be written, all are written one by one."""
    context = build.context
    dead_letters = {context.config["errors.dead.letter.queue.topic.name"]}
    if node.contract is not None:
        dead_letters.add(node.contract.quarantine_topic(context.config))
    if isinstance(node.topic, Function) or node.partitioner is not None or node.topic in dead_letters:
        return None
    topic, key_serde, value_serde = node.topic, node.key, node.value
    write = _writer(node, build, topic, key_serde, value_serde, None)
    partition, masked = -window_bytes(key_serde) or None, mask_of(node, context)

    def take(chunk: Chunk) -> None:
        columns = _serialized(chunk, key_serde, value_serde, masked)
        if columns is None:
            chunk.one_by_one(write)
            return
        keys, values = columns
        largest = context.largest
        if largest is not None and (chunk.headers is not None or _longest(keys) + _longest(values) > largest):
            chunk.one_by_one(write)
        else:
            context.outputs.append(OutputBatch(topic, keys, values, chunk.timestamps, chunk.headers, partition))

    return checked_in_bulk(node, context, Bulk(take, copies=value_serde.immutable))


def _serialized(
    chunk: Chunk, key_serde: Serde[Any], value_serde: Serde[Any], masked: Callable[[Any], Any] | None = None
) -> tuple[Sequence[bytes | None], Sequence[bytes | None]] | None:
    """Returns the keys and the values of records as bytes; None if one of them cannot be serialized in bulk."""
    if chunk.headers is not None and (serializes_with_headers(key_serde) or serializes_with_headers(value_serde)):
        return None
    try:
        plain = chunk.values if masked is None else list(map(masked, chunk.values))
        keys, values = chunk.serialized_keys(key_serde), value_serde.serialize_all(plain)
        for serde, column in ((key_serde, keys), (value_serde, values)):
            if not _is_built_in(serde):
                _check_bytes(serde, *column)
    except FAILURES:
        return None
    return keys, values


def _is_built_in(serde: Serde[Any]) -> bool:
    """Whether a serde is one of Millstream's, which always return bytes or None; a user's may return anything."""
    return type(serde).__module__.startswith("millstream.")


def _serializer(serde: Serde[Any]) -> Callable[[Any], bytes | None]:
    if _is_built_in(serde):
        return serde.serialize

    def serialize(value: Any) -> bytes | None:
        data = serde.serialize(value)
        _check_bytes(serde, data)
        return data

    return serialize


def _with_headers(serde: Serde[Any]) -> Callable[[Any, Headers], bytes | None]:
    if not serializes_with_headers(serde):
        without_headers = _serializer(serde)
        return lambda value, _headers: without_headers(value)

    def serialize(value: Any, headers: Headers) -> bytes | None:
        data = serde.serialize_with_headers(value, headers)
        _check_bytes(serde, data)
        return data

    return serialize


def _check_bytes(serde: Serde[Any], *serialized: Any) -> None:
    for data in serialized:
        if not isinstance(data, bytes | None):
            raise SerializationError(f"serialize() of serde {serde.name!r} returned {type(data).__name__}, not bytes")


def _longest(data: Sequence[bytes | None]) -> int:
    return max(map(len, filter(None, data)), default=0)


@operator(plan.Repartition)
def repartition(node: plan.Repartition, build: Build) -> Process:
    """Writes each record to an internal topic, which another sub-topology reads."""
    topic = build.context.topology.topic_of(node)
    if node.changes:
        return _change_writer(node, build, topic)
    return _repartition_writer(node, build, topic)


def _repartition_writer(node: plan.Repartition, build: Build, topic: str) -> Callable[..., None]:
    write = _writer(node, build, topic, node.key, node.value, node.partitioner)
    if node in build.facts.null_keys:
        return write
    drop = build.drop(node, "null key before repartition")

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop(key, value, timestamp, headers)
        else:
            write(key, value, timestamp, headers)

    return process


@in_bulk(plan.Repartition)
def repartition_all(node: plan.Repartition, build: Build) -> Bulk | None:
    """Writes records to an internal topic. If one cannot be written, all are written one by one."""
    if node.changes or node.partitioner is not None:
        return None
    topic, key_serde, value_serde = build.context.topology.topic_of(node), node.key, node.value
    context, process = build.context, _repartition_writer(node, build, topic)
    takes_null_keys = node in build.facts.null_keys

    def one_by_one(chunk: Chunk) -> None:
        indexes = iter(chunk.origin.indexes)

        def write(*record: Any) -> None:
            context.index = next(indexes)
            process(*record)

        try:
            chunk.one_by_one(write)
        finally:
            context.index = None

    def take(chunk: Chunk) -> None:
        columns = None
        if takes_null_keys or None not in chunk.keys:
            columns = _serialized(chunk, key_serde, value_serde)
        if columns is None:
            one_by_one(chunk)
            return
        batch = OutputBatch(topic, *columns, chunk.timestamps, chunk.headers, None, chunk.origin.indexes)
        context.outputs.append(batch)

    return Bulk(take, copies=value_serde.immutable)


def _change_writer(node: plan.Repartition, build: Build, topic: str) -> Process:
    write = _writer(node, build, topic, node.key, node.value, None)

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        write(key, (new, old), timestamp, headers)

    return process


def _writer(
    node: Node, build: Build, topic: str, key_serde: Serde[Any], value_serde: Serde[Any], partitioner: Function | None
) -> Process:
    """Returns the process that serializes a record and appends it to the outputs."""
    context = build.context
    outputs = context.outputs
    if context.raw and partitioner is None:
        append = outputs.append

        def write_raw(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            append((topic, key, value, timestamp, headers))

        return write_raw
    fail, masked = write_failure(node, context), mask_of(node, context)
    uses_headers = serializes_with_headers(key_serde) or serializes_with_headers(value_serde)
    key_bytes, value_bytes = _serializer(key_serde), _serializer(value_serde)
    key_of, value_of = _with_headers(key_serde), _with_headers(value_serde)
    choose = None if partitioner is None else partitioner.full()
    # Sinks, but not repartitions, hash windowed keys without their window, as Kafka Streams does.
    is_sink = isinstance(node, plan.Sink)
    default = -window_bytes(key_serde) or None if is_sink else None
    # `OutputRecord(...)` takes twice as long.
    make, append = partial(tuple.__new__, OutputRecord), outputs.append

    def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        partition = default
        try:
            if choose is not None:
                count = context.partition_counts(topic)
                partition = _checked_partition(choose(key, value, count), count)
            written = value if masked is None else masked(value)
            if uses_headers:
                key_data, value_data = key_of(key, headers), value_of(written, headers)
            else:
                key_data, value_data = key_bytes(key), value_bytes(written)
        except FAILURES as error:
            fail(_explain_key(error, key, key_serde), key, value, timestamp, headers)
            return
        largest = context.largest if is_sink else None
        if largest is not None and (headers or len(key_data or b"") + len(value_data or b"") > largest):
            size = size_of(key_data, value_data, headers)
            if size > largest:
                fail(_too_large(topic, size, largest), key, value, timestamp, headers)
                return
        append(make((topic, key_data, value_data, timestamp, headers, partition, None if is_sink else context.index)))

    return write


def _too_large(topic: str, size: int, largest: int) -> ProductionError:
    return ProductionError(
        f"a record of {size:,} bytes is too large for topic {topic!r}: the producer takes {largest:,}",
        hint="raise producer.message.max.bytes, and max.message.bytes of the topic",
    )


def _explain_key(error: BaseException, key: Any, serde: Serde[Any]) -> BaseException:
    """Returns the error; its message names the key if the key cannot be serialized."""
    if isinstance(error, SerializationError):
        try:
            serde.serialize(key)
        except SerializationError:
            hint = None if error.hint is None else error.hint.replace("value=", "key=")
            return SerializationError(f"the key: {error.message}", hint=hint)
    return error


def _checked_partition(chosen: Any, count: int) -> int | None:
    """Returns the partition that a partitioner chose; None: the key is hashed. Other results raise ProductionError."""
    if chosen is None or (type(chosen) is int and 0 <= chosen < count):
        return chosen
    raise ProductionError(
        f"the partitioner chose partition {chosen!r} of {count}",
        hint="a partitioner returns a number from 0 to partitions - 1",
    )


def _dynamic_sink(node: plan.Sink, topic: Function, build: Build) -> Process:
    fail = build.failure(node, topic)
    topic_for = topic.on_record()
    writers: dict[str, Process] = {}

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            target = topic_for(key, value, timestamp, headers)
            write = writers.get(target)
            if write is None:
                check_name(target, "topic")
                keys = node.key.bind(SerdeContext(target, is_key=True))
                values = node.value.bind(SerdeContext(target, is_key=False))
                write = writers[target] = _writer(node, build, target, keys, values, node.partitioner)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        write(key, value, timestamp, headers)

    return process
