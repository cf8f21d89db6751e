"""Random operations on each kind of store, compared with a list that is searched linearly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.serde import JSON, STRING
from millstream.state.api import LATEST, NOT_PUT
from millstream.state.memory import open_store, window
from millstream.state.spec import ChangelogRecord, StoreSpec

MANY = 10**9
SEGMENT = 60_000
KEYS = st.sampled_from(["a", "ab", "é"])
VALUES = st.sampled_from([None, "x", "y", "z"])
TIMES = st.integers(SEGMENT - 9, SEGMENT + 9)  # on both sides of the border of a segment
RETENTIONS = st.integers(0, 20)
LOW, HIGH = SEGMENT - 4, SEGMENT + 3
SERDES = pytest.mark.parametrize(("key", "value"), [(STRING, STRING), (STRING, JSON), (JSON, STRING)])


def operations(**kinds: Any) -> Any:
    operation = st.one_of([st.tuples(st.just(name), arguments) for name, arguments in kinds.items()])
    long = st.lists(operation, min_size=40, max_size=60)  # otherwise most lists would be short
    return st.lists(operation, max_size=10) | long


def compacted(log: Iterable[ChangelogRecord]) -> list[ChangelogRecord]:
    last: dict[bytes, ChangelogRecord] = {}
    for record in log:
        last.pop(record.key, None)
        last[record.key] = record
    return list(last.values())


def rebuilt(spec: StoreSpec, log: list[ChangelogRecord]) -> list[Any]:
    """Returns stores restored from the whole changelog, and from the compacted one."""
    stores = [open_store(spec), open_store(spec)]
    stores[0].restore(log)
    if spec.kind == "versioned":
        return stores[:1]
    stores[1].restore(compacted(log))
    return stores


def octets(key: str, serde: Any = STRING) -> bytes:
    data = serde.serialize(key)
    assert data is not None
    return bytes(data)


# --- key-value ------------------------------------------------------------------------------------------------------


@SERDES
@given(ops=operations(put=st.tuples(KEYS, VALUES), read=st.tuples(), log=st.tuples()))
def test_a_key_value_store_agrees_with_a_list(key: Any, value: Any, ops: list[Any]) -> None:
    spec = StoreSpec("s", "key-value", key, value)
    store: Any = open_store(spec)
    model: dict[str, str] = {}
    log: list[ChangelogRecord] = []

    def check(store: Any) -> None:
        rows = sorted(model.items(), key=lambda row: octets(row[0], key))
        assert list(store.range()) == rows
        assert list(store.range(reverse=True)) == rows[::-1]
        assert len(store) == len(rows)
        low, high = octets("a", key), octets("b", key)
        assert list(store.range("a", "b")) == [row for row in rows if low <= octets(row[0], key) <= high]
        assert list(store.range("a")) == [row for row in rows if low <= octets(row[0], key)]
        assert list(store.range(None, "a")) == [row for row in rows if octets(row[0], key) <= low]
        assert list(store.prefix(low[:2])) == [row for row in rows if octets(row[0], key).startswith(low[:2])]

    for name, arguments in ops:
        if name == "put":
            store.put(*arguments)
            model.pop(arguments[0], None)
            if arguments[1] is not None:
                model[arguments[0]] = arguments[1]
            assert store.get(arguments[0]) == arguments[1]
        elif name == "read":
            check(store)
        else:
            log += store.changes()
    for copy in [store, *rebuilt(spec, log + store.changes())]:
        check(copy)
        assert copy.changes() == []


# --- windows --------------------------------------------------------------------------------------------------------


class WindowModel:
    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.time = -1
        self.released = -MANY
        self.rows: list[tuple[str, int, Any]] = []

    def visible(self, start: int) -> bool:
        assert self.spec.retention_ms is not None
        return start > self.time - self.spec.retention_ms - self.spec.held

    def kept(self, start: int) -> bool:
        return self.visible(start) or (self.spec.held and start > self.released)

    def put(self, key: str, start: int, row: Any) -> None:
        if self.spec.duplicates and row is None:
            return
        self.time = max(self.time, start)
        if not self.kept(start):
            return
        if not self.spec.duplicates:
            self.rows = [entry for entry in self.rows if entry[:2] != (key, start)]
        if row is not None:
            self.rows.append((key, start, row))

    def release(self, start: int) -> None:
        self.released = max(self.released, start)
        self.rows = [row for row in self.rows if self.kept(row[1])]

    def seen(self, from_: int, to: int) -> list[tuple[str, int, Any]]:
        return [row for row in self.rows if self.visible(row[1]) and from_ <= row[1] <= to]

    def check(self, store: Any, spec: StoreSpec) -> None:
        assert store.time == self.time
        for key in ["a", "ab", "é", "never"]:
            for from_, to in [(-5, MANY), (LOW, HIGH), (SEGMENT, SEGMENT)]:
                own = sorted([row[1:] for row in self.seen(from_, to) if row[0] == key], key=lambda row: row[0])
                assert store.fetch(key, from_, to) == own
                assert store.fetch(key, from_, to, True) == own[::-1]
            for start in [LOW, SEGMENT, HIGH]:
                assert store.get(key, start) == next((row[2] for row in self.seen(start, start) if row[0] == key), None)
        for from_, to in [(-5, MANY), (LOW, HIGH)]:
            expected = sorted(
                self.seen(from_, to), key=lambda row: (row[1] // SEGMENT, octets(row[0], spec.key), row[1])
            )
            assert store.fetch_all(from_, to) == expected
            assert store.fetch_all(from_, to, True) == expected[::-1]
            low, high = octets("a", spec.key), octets("b", spec.key)
            within = [row for row in expected if low <= octets(row[0], spec.key) <= high]
            assert store.fetch_keys("a", "b", from_, to) == within
            assert store.fetch_keys("a", "b", from_, to, True) == within[::-1]
        expected = sorted(self.seen(-5, MANY), key=lambda row: (row[1] // SEGMENT, octets(row[0], spec.key), row[1]))
        assert store.all() == expected
        assert store.all(True) == expected[::-1]
        for low_, high_ in [(-5, MANY), (LOW, HIGH)]:
            rows = [row for row in self.rows if low_ < row[1] <= high_ and self.kept(row[1])]
            assert store.rows_between(low_, high_) == sorted(rows, key=lambda row: (row[1], octets(row[0], spec.key)))


WINDOW_OPS = operations(put=st.tuples(KEYS, TIMES, VALUES), release=st.tuples(TIMES), read=st.tuples(), log=st.tuples())


def run_windows(spec: StoreSpec, ops: list[Any], row: Callable[[Any], Any]) -> None:
    store: Any = open_store(spec)
    model = WindowModel(spec)
    log: list[ChangelogRecord] = []
    for name, arguments in ops:
        if name == "put":
            key, start, value = arguments
            store.put(key, start, row(value))
            model.put(key, start, row(value))
        elif name == "release":
            store.release(*arguments)
            model.release(*arguments)
        elif name == "read":
            model.check(store, spec)
        else:
            log += store.changes()
    model.check(store, spec)
    again = rebuilt(spec, log + store.changes())
    for copy in again:
        copy.release(model.released)
        model.check(copy, spec)
        assert copy.changes() == []
    for key, start in [
        ("a", LOW),
        ("zz", HIGH),
        ("ab", HIGH + 5),
        ("a", HIGH + 10),
        ("a", LOW),
    ]:  # they behave the same from now on
        for copy in [store, *again]:
            copy.put(key, start, row("new"))
            assert copy.all() == store.all()
            assert copy.rows_between(-1, MANY) == store.rows_between(-1, MANY)


@pytest.mark.parametrize("probed", [0, 32], ids=["indexed", "probed"])
@SERDES
@given(ops=WINDOW_OPS, retention=RETENTIONS, held=st.booleans(), timestamped=st.booleans())
def test_a_window_store_agrees_with_a_list(
    key: Any, value: Any, probed: int, ops: list[Any], retention: int, held: bool, timestamped: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "_PROBED", probed)
        spec = StoreSpec("s", "window", key, value, timestamped, retention, 10, held=held)
        run_windows(spec, ops, (lambda v: None if v is None else (v, 7)) if timestamped else (lambda v: v))


@SERDES
@given(ops=WINDOW_OPS, retention=RETENTIONS)
def test_a_window_store_with_duplicates_agrees_with_a_list(
    key: Any, value: Any, ops: list[Any], retention: int
) -> None:
    spec = StoreSpec("s", "window", key, value, retention_ms=retention, duplicates=True)
    run_windows(spec, ops, lambda v: v)


# --- sessions -------------------------------------------------------------------------------------------------------


class SessionModel:
    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.time = -1
        self.released = -MANY
        self.rows: dict[tuple[str, int, int], Any] = {}

    def visible(self, end: int) -> bool:
        assert self.spec.retention_ms is not None
        return end > self.time - self.spec.retention_ms

    def kept(self, end: int) -> bool:
        return self.visible(end) or (self.spec.held and end > self.released)

    def put(self, key: str, start: int, end: int, row: Any) -> None:
        self.time = max(self.time, end)
        if not self.kept(end):
            return
        self.rows.pop((key, start, end), None)
        if row is not None:
            self.rows[key, start, end] = row

    def release(self, end: int) -> None:
        self.released = max(self.released, end)
        self.rows = {at: row for at, row in self.rows.items() if self.kept(at[2])}

    def seen(self) -> list[tuple[str, int, int, Any]]:
        return [(*at, row) for at, row in self.rows.items() if self.visible(at[2])]

    def check(self, store: Any) -> None:
        def name(row: tuple[Any, ...]) -> bytes:
            return octets(row[0], self.spec.key)

        assert store.time == self.time
        for key in ["a", "ab", "é", "never"]:
            own = sorted([row[1:] for row in self.seen() if row[0] == key], key=lambda row: (row[1], row[0]))
            assert store.fetch(key) == own
            assert store.fetch(key, True) == own[::-1]
            for end, start in [(LOW, HIGH), (HIGH, LOW), (0, SEGMENT)]:
                assert store.find(key, end, start) == [row for row in own if row[1] >= end and row[0] <= start]
            for row in own:
                assert store.get(key, row[0], row[1]) == row[2]
            assert store.get(key, 61, 61) is None
        expected = sorted(self.seen(), key=lambda row: (row[2] // SEGMENT, name(row), row[2], row[1]))
        assert store.fetch_keys() == expected
        assert store.fetch_keys(reverse=True) == expected[::-1]
        low, high = octets("a", self.spec.key), octets("b", self.spec.key)
        assert store.fetch_keys("a", "b") == [row for row in expected if low <= name(row) <= high]
        assert store.fetch_keys(None, None, LOW, HIGH) == [row for row in expected if row[2] >= LOW and row[1] <= HIGH]
        expected.sort(key=lambda row: (row[2], row[1], name(row)))
        assert store.find_ending(LOW, HIGH) == [row for row in expected if LOW <= row[2] <= HIGH]
        kept = [(*at, row) for at, row in self.rows.items() if self.kept(at[2])]
        kept.sort(key=lambda row: (row[2], row[1], name(row)))
        assert store.rows_between(-1, MANY) == kept
        assert store.rows_between(LOW, HIGH) == [row for row in kept if LOW < row[2] <= HIGH]


SESSIONS = st.tuples(KEYS, TIMES, st.integers(0, 3)).map(lambda session: (session[0], session[1], sum(session[1:])))


@SERDES
@given(
    ops=operations(
        put=st.tuples(SESSIONS, VALUES), remove=SESSIONS, release=st.tuples(TIMES), read=st.tuples(), log=st.tuples()
    ),
    retention=RETENTIONS,
    held=st.booleans(),
)
def test_a_session_store_agrees_with_a_list(key: Any, value: Any, ops: list[Any], retention: int, held: bool) -> None:
    spec = StoreSpec("s", "session", key, value, retention_ms=retention, held=held)
    store: Any = open_store(spec)
    model = SessionModel(spec)
    log: list[ChangelogRecord] = []
    for name, arguments in ops:
        if name == "put":
            (key_, start, end), row = arguments
            store.put(key_, start, end, row)
            model.put(key_, start, end, row)
        elif name == "remove":
            key_, start, end = arguments
            store.remove(key_, start, end)
            model.put(key_, start, end, None)
        elif name == "release":
            store.release(*arguments)
            model.release(*arguments)
        elif name == "read":
            model.check(store)
        else:
            log += store.changes()
    model.check(store)
    for copy in rebuilt(spec, log + store.changes()):
        copy.release(model.released)
        model.check(copy)


# --- versions -------------------------------------------------------------------------------------------------------


class VersionedModel:
    def __init__(self, retention: int) -> None:
        self.retention = retention
        self.time = -1
        self.versions: dict[str, dict[int, Any]] = {}
        self.ends: dict[str, int] = {}

    def put(self, key: str, value: Any, timestamp: int) -> int:
        if timestamp < self.time - self.retention:
            return NOT_PUT
        self.time = max(self.time, timestamp)
        versions = self.versions.setdefault(key, {})
        latest = max(versions, default=-1)
        end = self.ends.get(key, -1)  # the last time at which a version ends; a tombstone is such an end
        if versions.get(latest) is None:
            if value is None:
                self.ends[key] = max(end, timestamp)
        elif timestamp > latest:
            self.ends[key] = timestamp
        elif end <= timestamp < latest:
            self.ends[key] = latest
        elif value is None and end != timestamp == latest:
            del versions[timestamp]  # a first version that ends where it begins is removed
            return LATEST
        versions[timestamp] = value
        return min((time for time in versions if time > timestamp), default=LATEST)

    def get(self, key: str, as_of: int) -> Any:
        versions = self.versions.get(key, {})
        start = max((time for time in versions if time <= as_of), default=None)
        if start is None or versions[start] is None:
            return None
        if as_of < self.time - self.retention and start != max(versions):
            return None
        return versions[start], start

    def check(self, store: Any) -> None:
        assert store.time == self.time
        for key in ["a", "ab", "never"]:
            assert store.get(key) == self.get(key, MANY)
            for as_of in range(-1, 18):
                assert store.get_as_of(key, as_of) == self.get(key, as_of)


VERSION_TIMES = st.integers(0, 15)


@SERDES
@given(
    ops=operations(
        put=st.tuples(st.sampled_from(["a", "ab"]), VALUES, VERSION_TIMES),
        delete=st.tuples(st.sampled_from(["a", "ab"]), VERSION_TIMES),
        read=st.tuples(),
        log=st.tuples(),
    ),
    retention=RETENTIONS,
)
def test_a_versioned_store_agrees_with_a_list(key: Any, value: Any, ops: list[Any], retention: int) -> None:
    spec = StoreSpec("s", "versioned", key, value, retention_ms=retention)
    store: Any = open_store(spec)
    model = VersionedModel(retention)
    log: list[ChangelogRecord] = []
    for name, arguments in ops:
        if name == "put":
            assert store.put(*arguments) == model.put(*arguments)
        elif name == "delete":
            former = model.get(*arguments) if arguments[1] >= model.time - retention else None
            model.put(arguments[0], None, arguments[1])
            assert store.delete(*arguments) == former
        elif name == "read":
            model.check(store)
        else:
            log += store.changes()
    model.check(store)
    for copy in rebuilt(spec, log + store.changes()):
        model.check(copy)


# --- buffers --------------------------------------------------------------------------------------------------------

ENTRIES = st.tuples(st.integers(0, 5), st.sampled_from([b"", b"a", b"b"]))


@pytest.mark.parametrize("value", [STRING, JSON])
@given(
    ops=operations(
        put=st.tuples(ENTRIES, VALUES.filter(bool)), remove=ENTRIES, pop=st.tuples(), read=st.tuples(), log=st.tuples()
    )
)
def test_a_buffer_agrees_with_a_list(value: Any, ops: list[Any]) -> None:
    spec = StoreSpec("s", "buffer", STRING, value)
    store: Any = open_store(spec)
    model: dict[tuple[int, bytes], Any] = {}
    log: list[ChangelogRecord] = []

    def check(store: Any) -> None:
        entries = [(*at, model[at]) for at in sorted(model)]
        assert store.all() == entries
        assert store.first() == (entries[0] if entries else None)
        assert len(store) == len(entries)

    for name, arguments in ops:
        if name == "put":
            store.put(*arguments[0], arguments[1])
            model[arguments[0]] = arguments[1]
            assert store.get(*arguments[0]) == arguments[1]
        elif name == "remove":
            store.remove(*arguments)
            model.pop(arguments, None)
            assert store.get(*arguments) is None
        elif name == "pop":
            first = min(model) if model else None
            assert store.pop_first() == (None if first is None else (*first, model.pop(first)))
        elif name == "read":
            check(store)
        else:
            log += store.changes()
    for copy in [store, *rebuilt(spec, log + store.changes())]:
        check(copy)
        drained = [copy.pop_first() for _ in range(len(model) + 1)]
        assert drained == [(*at, model[at]) for at in sorted(model)] + [None]
