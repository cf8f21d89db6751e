"""The processors of the vectors, written with the public Processor API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream import FixedKeyProcessor, Processor, Record, Windowed
from tests.conformance.expressions import compile_expression, spell

TYPES = {"string": str, "long": int}


def make_processor(
    node: dict[str, Any], key: str, value: str
) -> tuple[Callable[[], Any], list[dict[str, Any]], str, str]:
    """Returns a supplier of the processor, its stores, and the types of the keys and values that it forwards."""
    kind = node["processor"]
    stores = _stores(node, key)
    if node["op"] == "process_values":
        cls: Any = {"meta": MetaValues, "running_count": RunningCount}.get(kind) or _fixed(PROCESSORS[kind])
    else:
        cls = PROCESSORS[kind]
    out_key = "string" if kind == "ticker" else key
    out_value = value if kind in {"router", "shift", "headers", "dedup", "ttl"} else "string"
    return (lambda: cls(node)), stores, out_key, out_value


def _stores(node: dict[str, Any], key: str) -> list[dict[str, Any]]:
    if "store" not in node:
        return []
    kind = node["processor"]
    shapes: dict[str, tuple[str, str, str]] = {
        "running_count": ("key-value", "kv", "long"),
        "ttl": ("key-value", "kv", "long"),
        "kv_ops": ("key-value", "kv", "string"),
        "dedup": ("window", "window", "string"),
        "window_ops": ("window", "window", "string"),
        "session_ops": ("session", "session", "string"),
        "versioned_ops": ("versioned", "versioned", "string"),
    }
    store_kind, shape, value = shapes[kind]
    options: dict[str, Any] = {"key": TYPES[key], "value": TYPES[value]}
    if store_kind != "key-value":
        options["retention"] = node["retention_ms"]
    if store_kind == "window":
        options["window_size"] = node["within_ms"] if kind == "dedup" else node["size_ms"]
    return [
        {
            "name": node["store"],
            "kind": store_kind,
            "options": options,
            "shape": {"name": node["store"], "kind": shape, "key": key, "value": value, "plain": True},
        }
    ]


class Base(Processor[Any, Any, Any, Any]):
    """Has the node of the vector, and the store, if there is one."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    def init(self) -> None:
        """Opens the store."""
        if "store" in self.node:
            self.store = self.context.store(self.node["store"])


def _fixed(cls: type) -> type:
    """The same processor, for process_values."""
    return type(cls.__name__, (cls,), {})


class Meta(Base):
    """Forwards the topic, partition and offset of each record."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards ``topic/partition/offset@stream time``."""
        self.context.forward(record.with_value(_meta(self.context)))


class MetaValues(FixedKeyProcessor[Any, Any, Any]):
    """The same for `process_values`: the key is kept."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards ``topic/partition/offset@stream time``."""
        self.context.forward(record.with_value(_meta(self.context)))


def _meta(context: Any) -> str:
    where = context.record_metadata
    return f"{where.topic}/{where.partition}/{where.offset}@{context.current_stream_time}"


class RunningCount(FixedKeyProcessor[Any, Any, Any]):
    """Counts the records of each key in a store."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    def init(self) -> None:
        """Opens the store."""
        self.store = self.context.store(self.node["store"])

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards the value and its count."""
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(f"{spell(record.value)}#{count}"))


class Ticker(Base):
    """Counts records, and forwards the count at each punctuation."""

    def init(self) -> None:
        """Schedules the punctuator."""
        self.count = self.ticks = 0
        self.schedule = self.context.schedule(
            self.node["every_ms"], self.node["clock"], self.tick, start=self.node.get("start_ms")
        )

    def process(self, record: Record[Any, Any]) -> None:
        """Counts the record."""
        self.count += 1
        if self.node.get("pass"):
            self.context.forward(record)

    def tick(self, now: int) -> None:
        """Forwards the count."""
        self.context.forward(Record("tick", f"{self.count}@{now}", now))
        self.ticks += 1
        if self.ticks == self.node.get("limit"):
            self.schedule.cancel()


class Router(Base):
    """Forwards to a child by name."""

    def init(self) -> None:
        """Compiles the condition."""
        self.when = compile_expression(self.node["when"], ("key", "value"))

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards to the child that the condition chooses."""
        if self.when(record.key, record.value):
            self.context.forward(record, to=self.node["then"])
        else:
            self.context.forward(record, to=self.node.get("else"))


class Fanout(Base):
    """Forwards two records for each record."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards both records."""
        self.context.forward(record.with_value(f"{spell(record.value)}-1"))
        later = max(0, record.timestamp + self.node["delta_ms"])
        self.context.forward(record.with_value(f"{spell(record.value)}-2").with_timestamp(later))


class Shift(Base):
    """Shifts timestamps."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards the record with another timestamp."""
        self.context.forward(record.with_timestamp(record.timestamp + self.node["delta_ms"]))


class HeaderEditor(Base):
    """Edits headers."""

    def process(self, record: Record[Any, Any]) -> None:
        """Removes and appends headers, and forwards the record."""
        kept = tuple(h for h in record.headers if h[0] not in self.node.get("remove", []))
        added = tuple((name, None if v is None else v.encode()) for name, v in self.node.get("add", []))
        self.context.forward(record.with_headers(kept + added))


class Dedup(Base):
    """Drops a record if one with the same key is within an interval of time."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards the record unless there is another one in the interval."""
        if record.key is None:
            self.context.forward(record)
            return
        within, time = self.node["within_ms"], record.timestamp
        if not list(self.store.fetch(record.key, time - within, time + within)):
            self.context.forward(record)
        self.store.put(record.key, spell(record.value), time)


class Ttl(Base):
    """Deletes rows that were not updated for a time."""

    def init(self) -> None:
        """Schedules the punctuator."""
        super().init()
        self.context.schedule(self.node["every_ms"], self.node["clock"], self.tick)

    def process(self, record: Record[Any, Any]) -> None:
        """Stores the timestamp, and forwards the record."""
        if record.key is not None:
            self.store.put(record.key, record.timestamp)
            self.context.forward(record)

    def tick(self, now: int) -> None:
        """Deletes expired rows, and forwards a tombstone for each."""
        old = [key for key, stored in self.store.all() if now - stored > self.node["ttl_ms"]]
        for key in old:
            self.context.forward(Record(key, None, now))
            self.store.delete(key)


class Commands(Base):
    """Runs the commands to a store that it gets as values, and forwards the responses."""

    def process(self, record: Record[Any, Any]) -> None:
        """Runs a command."""
        if record.value is None:
            return
        words = record.value.split(":")
        for answer in self.run(record.key, words[0], words[1:]):
            self.context.forward(record.with_value(answer))

    def run(self, key: Any, command: str, args: list[str]) -> list[str]:
        """Runs a command, and returns its responses."""
        raise NotImplementedError


class KvOps(Commands):
    """Commands to a key-value store."""

    def run(self, key: Any, command: str, args: list[str]) -> list[str]:
        """Runs a command, and returns its responses."""
        store = self.store
        if command in {"put", "putnull"}:
            store.put(key, args[0] if command == "put" else None)
            return ["ok"]
        if command == "get":
            return [spell(store.get(key))]
        if command == "delete":
            return [spell(store.delete(key))]
        if command == "put_if_absent":
            return [spell(store.put_if_absent(key, args[0]))]
        bounds = [arg or None for arg in args]
        rows = {
            "all": store.all,
            "reverse_all": store.reverse_all,
            "range": lambda: store.range(*bounds),
            "reverse_range": lambda: store.reverse_range(*bounds),
            "prefix": lambda: store.prefix_scan(args[0]),
        }[command]()
        return [f"{spell(k)}={spell(v)}" for k, v in rows] + ["end"]


class WindowOps(Commands):
    """Commands to a window store."""

    def run(self, key: Any, command: str, args: list[str]) -> list[str]:
        """Runs a command, and returns its responses."""
        store = self.store
        if command in {"put", "putnull"}:
            store.put(key, args[1] if command == "put" else None, int(args[0]))
            return ["ok"]
        if command == "get":
            return [spell(store.fetch(key, int(args[0])))]
        if command in {"fetch", "backward_fetch"}:
            values = getattr(store, command)(key, int(args[0]), int(args[1]))
            return [f"{start}={spell(v)}" for start, v in values] + ["end"]
        if command == "fetch_all":
            entries = store.fetch_all(int(args[0]), int(args[1]))
        elif command == "fetch_keys":
            entries = store.fetch_range(args[0], args[1], int(args[2]), int(args[3]))
        else:
            entries = store.all()
        return [f"{spell(k)}={spell(v)}" for k, v in entries] + ["end"]


class SessionOps(Commands):
    """Commands to a session store."""

    def run(self, key: Any, command: str, args: list[str]) -> list[str]:
        """Runs a command, and returns its responses."""
        store = self.store
        if command == "put":
            store.put(Windowed(key, int(args[0]), int(args[1])), args[2])
            return ["ok"]
        if command == "remove":
            store.remove(Windowed(key, int(args[0]), int(args[1])))
            return ["ok"]
        if command == "get":
            return [spell(store.fetch_session(key, int(args[0]), int(args[1])))]
        sessions = store.fetch(key) if command == "fetch" else store.find_sessions(key, int(args[0]), int(args[1]))
        return [f"{spell(k)}={spell(v)}" for k, v in sessions] + ["end"]


class VersionedOps(Commands):
    """Commands to a versioned store."""

    def run(self, key: Any, command: str, args: list[str]) -> list[str]:
        """Runs a command, and returns its responses."""
        store = self.store
        if command in {"put", "putnull"}:
            valid_to = store.put(key, args[1] if command == "put" else None, int(args[0]))
            return ["latest" if valid_to == -1 else "not put" if valid_to < -1 else f"until {valid_to}"]
        if command == "delete":
            version = store.delete(key, int(args[0]))
        else:
            version = store.get(key, as_of=int(args[0])) if args else store.get(key)
        return ["null" if version is None else f"{spell(version.value)}@{version.timestamp}"]


PROCESSORS: dict[str, type] = {
    "meta": Meta,
    "ticker": Ticker,
    "router": Router,
    "fanout": Fanout,
    "shift": Shift,
    "headers": HeaderEditor,
    "dedup": Dedup,
    "ttl": Ttl,
    "kv_ops": KvOps,
    "window_ops": WindowOps,
    "session_ops": SessionOps,
    "versioned_ops": VersionedOps,
}
