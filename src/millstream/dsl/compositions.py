"""Operators that are implemented as processors: deduplication, and expiry of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from millstream.core.callsite import caller
from millstream.core.durations import END_OF_TIME, Duration, later, show_ms, to_ms
from millstream.core.records import Record
from millstream.dsl.internals import NodeOutput
from millstream.dsl.processor_nodes import add_processor
from millstream.dsl.processors import FixedKeyProcessor
from millstream.errors import TopologyError
from millstream.plan.functions import Function
from millstream.plan.process import SerdeUser, Store
from millstream.serde import BYTES, JSON, LONG, Serde, SerdeContext
from millstream.state.spec import StoreSpec


class _Supplier(SerdeUser):
    """Creates a processor with the serde of its keys."""

    make: Callable[[Serde[Any]], FixedKeyProcessor[Any, Any, Any]]

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        """Creates a processor."""
        return self.make(self.key)

    def bind_key(self, context: SerdeContext) -> _Supplier:
        """Returns the supplier with its serde bound."""
        key = self.key.bind(context)
        return self if key is self.key else _Supplier(key, self.make)


def deduplicate(stream: NodeOutput, within: Duration, by: Any, store: str | None, name: str | None) -> NodeOutput:
    """Adds the processor of `Stream.deduplicate`."""
    span = to_ms(within, "within")
    if span <= 0:
        raise TopologyError(f"deduplicate: within must be more than zero, got {show_ms(span)}")
    builder = stream.builder
    label = builder.name(name, "deduplicate", stream.node)
    topic = store if store is not None else name
    stream = stream.copartitioned(topic, label)
    if topic is None:
        builder.check_explicit(label)
    key = stream.key_serde
    same = None if by is None else stream.record_function(by, "by")
    spec = StoreSpec(
        name=store if store is not None else f"{label}-store",
        kind="window",
        key=BYTES,
        value=BYTES,
        retention_ms=later(2 * span, 1),
        window_size_ms=span,
        named=store is not None,
    )
    builder.add(Store(name=builder.name(None, "store", base=label), at=caller(), store=spec), lineage=label)

    make = _Supplier(key, partial(Deduplicate, spec.name, span, same))
    return stream.then(add_processor(stream, make, (spec.name,), label, keeps_key=True, function=same))


class Deduplicate(FixedKeyProcessor[Any, Any, Any]):
    """Forwards a record unless the store has an equal one with a timestamp near its own."""

    def __init__(self, store: str, within: int, same: Function | None, key: Serde[Any]) -> None:
        self._name = store
        self._within = within
        self._key = key
        self._same = None if same is None else same.on_record()

    def init(self) -> None:
        """Opens the store."""
        self._seen = self.context.store(self._name)

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards or drops a record, and stores its identity and timestamp."""
        if record.key is None:
            self.context.forward(record)
            return
        identity = self._key.serialize(record.key) or b""
        if self._same is not None:
            identity += b"\0" + (JSON.serialize(self._same(*record)) or b"")
        time = record.timestamp
        near = self._seen.fetch(identity, max(0, time - self._within), time + self._within)
        self._seen.put(identity, b"", time)
        if any(True for _ in near):
            self.context.drop(record, "duplicate")
        else:
            self.context.forward(record)


def expire(stream: NodeOutput, ttl: Duration, label: str) -> NodeOutput:
    """Adds a processor that deletes a row when it was not updated for the given time."""
    span = to_ms(ttl, "ttl")
    if span <= 0:
        raise TopologyError(
            f"ttl must be more than zero, got {show_ms(span)}", hint="leave it out to retain rows forever"
        )
    builder = stream.builder
    key = stream.key_serde
    last = StoreSpec(name=f"{label}-ttl-last-store", kind="key-value", key=key, value=LONG)
    due = StoreSpec(name=f"{label}-ttl-due-store", kind="key-value", key=BYTES, value=BYTES)
    for spec in (last, due):
        builder.add(Store(name=builder.name(None, spec.name, base=""), at=caller(), store=spec), lineage=label)

    make = _Supplier(key, partial(Expire, last.name, due.name, span))
    ttl_label = builder.name(None, "ttl", base=label)
    return stream.then(add_processor(stream, make, (last.name, due.name), ttl_label, keeps_key=True))


class Expire(FixedKeyProcessor[Any, Any, Any]):
    """Forwards a deletion for each key without a record for the given time.

    One store has the time of the last record by key. The keys of the other are that time (8 bytes) and the bytes of the
    key, so that expiry reads only the rows that are due.
    """

    def __init__(self, last: str, due: str, ttl: int, key: Serde[Any]) -> None:
        self._names = (last, due)
        self._ttl = ttl
        self._key = key

    def init(self) -> None:
        """Opens the stores, and schedules expiry at each advance of stream time."""
        self._last, self._due = (self.context.store(name) for name in self._names)
        self._next = self._next_due()
        self.context.schedule(1, "stream", self._expire)

    def process(self, record: Record[Any, Any]) -> None:
        """Stores the time of the record, and forwards the record."""
        key, time = record.key, record.timestamp
        if key is not None:
            before = self._last.get(key)
            if before is not None and (record.value is None or time > before):
                self._due.delete(self._due_key(before, key))
            if record.value is None:
                self._last.delete(key)
            elif before is None or time > before:
                self._last.put(key, time)
                self._due.put(self._due_key(time, key), b"")
                self._next = min(self._next, later(time, self._ttl))
        self.context.forward(record)

    def _expire(self, now: int) -> None:
        if now <= self._next:
            return
        end = (now - self._ttl).to_bytes(8, "big") if now >= self._ttl else b""
        for due_key, _ in list(self._due.range(None, end)):
            time, key = int.from_bytes(due_key[:8], "big"), self._key.deserialize(due_key[8:])
            self._due.delete(due_key)
            self._last.delete(key)
            self.context.forward(Record(key, None, later(time, self._ttl)))
        self._next = self._next_due()

    def _next_due(self) -> int:
        """Returns the time at which the oldest row is due."""
        first = next(iter(self._due.all()), None)
        return END_OF_TIME if first is None else later(int.from_bytes(first[0][:8], "big"), self._ttl)

    def _due_key(self, time: int, key: Any) -> bytes:
        return time.to_bytes(8, "big") + (self._key.serialize(key) or b"")
