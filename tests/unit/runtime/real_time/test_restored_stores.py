"""A restored store equals the original: from its changelog, or from the local store and the rest of the changelog."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.runtime.real_time.changelogs import Twins

from millstream.serde import BYTES, JSON, LONG, STRING
from millstream.state.spec import StoreSpec

SERDES = pytest.mark.parametrize(("key", "value"), [(STRING, STRING), (JSON, JSON)], ids=["objects", "bytes"])
NAMES = [f"key{n}" for n in range(12)]
KEYS = st.sampled_from(NAMES)
FEW_KEYS = st.sampled_from(NAMES[:5])
VALUES = st.sampled_from([None, "x", "y" * 30, "z"])
TIMES = st.integers(0, 12).map(lambda n: n * 1_500)
RETENTIONS = st.sampled_from([0, 3_000, 8_000, 20_000, None])
OPTIONS = st.fixed_dictionaries(
    {"page_bytes": st.sampled_from([60, 200, 8192]), "memory_limit": st.sampled_from([0, 2_000, 10**9])}
)
SECONDS = st.sampled_from([0.1, 3.0, 11.0])
MANY = 10**9


def operations(**kinds: Any) -> Any:
    usual = {
        "publish": st.tuples(SECONDS),
        "crash": st.tuples(),
        "lose": st.tuples(),
        "end": st.tuples(),
        "compact": st.tuples(),
        "check": st.tuples(),
    }
    kinds = {**kinds, **usual}
    calls = {name: st.tuples(st.just(name), arguments) for name, arguments in kinds.items()}
    call = st.one_of([*calls.values(), *[calls["put"]] * 3, *[calls["publish"]] * 3])
    return st.lists(call, max_size=12) | st.lists(call, min_size=30, max_size=50)


def run(spec: StoreSpec, data: Any, ops: Any, check: Any) -> None:
    """Runs operations on a store with a local store, or without, among publications, restarts and compactions."""
    options, local = data.draw(OPTIONS, label="options"), data.draw(st.booleans(), label="local")
    with TemporaryDirectory() as directory:
        twins = Twins(spec, Path(directory) / "store.db" if local else None, **options)
        try:
            for name, arguments in data.draw(ops, label="operations"):
                _step(twins, name, arguments, check)
            for name in ("publish", "check", "crash", "check", "end", "crash", "check", "compact", "lose", "check"):
                _step(twins, name, (3,) if name == "publish" else (), check)
        finally:
            twins.state.close()


def _step(twins: Twins, name: str, arguments: Any, check: Any) -> None:
    if name == "check":
        check(twins)
    elif name == "lose":
        twins.crash(lost=True)
    elif name == "end":
        twins.publish(force=True)
    elif name in {"publish", "crash", "compact"}:
        getattr(twins, name)(*arguments)
    else:
        twins.call(name, *arguments)


def row_of(spec: StoreSpec, rows: Any = VALUES) -> Any:
    return rows.map(lambda value: None if value is None else (value, 7)) if spec.timestamped else rows


@SERDES
@settings(max_examples=15)
@given(data=st.data(), timestamped=st.booleans())
def test_key_value_store(key: Any, value: Any, data: Any, timestamped: bool) -> None:
    spec = StoreSpec("s", "key-value", key, value, timestamped)

    def check(twins: Twins) -> None:
        for name in NAMES[::5]:
            twins.read("get", name)
        twins.read("prefix", key.serialize("key1"))
        twins.read("range", None, None, True)

    run(spec, data, operations(put=st.tuples(KEYS, row_of(spec)), get=st.tuples(KEYS)), check)


@settings(max_examples=15)
@given(data=st.data())
def test_grouped_key_value_store(data: Any) -> None:
    spec = StoreSpec("s", "key-value", BYTES, STRING, grouped=True, logged=False)
    keys = st.tuples(st.sampled_from([b"a", b"bb"]), st.sampled_from([b"x", b"y", b""])).map(
        lambda parts: len(parts[0]).to_bytes(4, "big") + parts[0] + parts[1]
    )

    def check(twins: Twins) -> None:
        twins.read("prefix", b"\0\0\0\1a")
        twins.read("range")

    run(spec, data, operations(put=st.tuples(keys, VALUES), prefix=st.just((b"\0\0\0\2bb",))), check)


@SERDES
@settings(max_examples=15)
@given(data=st.data(), timestamped=st.booleans(), held=st.booleans(), retention=RETENTIONS)
def test_window_store(key: Any, value: Any, data: Any, timestamped: bool, held: bool, retention: int | None) -> None:
    spec = StoreSpec("s", "window", key, value, timestamped, retention, 10, held=held)
    ops = operations(
        put=st.tuples(FEW_KEYS, TIMES, row_of(spec)),
        get=st.tuples(FEW_KEYS, TIMES),
        fetch=st.tuples(FEW_KEYS, TIMES, TIMES),
        rows_between=st.tuples(TIMES, TIMES),
        release=st.tuples(TIMES),
    )
    run(spec, data, ops, check_windows)


def check_windows(twins: Twins) -> None:
    assert twins.paged.time == twins.memory.time
    for name in NAMES[:5]:
        twins.read("fetch", name, -5, MANY)
        twins.read("get", name, twins.memory.time)
    twins.read("fetch_all", 5_000, 9_000)
    twins.read("rows_between", -5, MANY)
    twins.read("all", True)


@settings(max_examples=15)
@given(data=st.data())
def test_window_store_that_counts_many_keys_at_once(data: Any) -> None:
    spec = StoreSpec("s", "window", STRING, LONG, True, None, 10)
    ops = operations(
        put=st.tuples(FEW_KEYS, TIMES, st.sampled_from([None, (3, 7)])),
        count_all=st.tuples(st.lists(FEW_KEYS, min_size=1, max_size=8), TIMES, st.just([5] * 8)).map(
            lambda call: (call[0], call[1], call[2][: len(call[0])])
        ),
    )
    run(spec, data, ops, check_windows)


@SERDES
@settings(max_examples=15)
@given(data=st.data(), timestamped=st.booleans(), retention=RETENTIONS)
def test_window_store_with_duplicates(
    key: Any, value: Any, data: Any, timestamped: bool, retention: int | None
) -> None:
    spec = StoreSpec("s", "window", key, value, timestamped, retention, duplicates=True)
    ops = operations(put=st.tuples(FEW_KEYS, TIMES, row_of(spec)), fetch=st.tuples(FEW_KEYS, TIMES, TIMES))
    run(spec, data, ops, check_windows)


SESSIONS = st.tuples(FEW_KEYS, TIMES, st.integers(0, 3)).map(lambda s: (s[0], s[1], s[1] + s[2] * 400))


@SERDES
@settings(max_examples=15)
@given(data=st.data(), timestamped=st.booleans(), held=st.booleans(), retention=RETENTIONS)
def test_session_store(key: Any, value: Any, data: Any, timestamped: bool, held: bool, retention: int | None) -> None:
    spec = StoreSpec("s", "session", key, value, timestamped, retention, held=held)
    ops = operations(
        put=st.tuples(SESSIONS, row_of(spec)).map(lambda put: (*put[0], put[1])),
        remove=SESSIONS,
        get=SESSIONS,
        find=st.tuples(FEW_KEYS, TIMES, TIMES),
        release=st.tuples(TIMES),
    )

    def check(twins: Twins) -> None:
        assert twins.paged.time == twins.memory.time
        for name in NAMES[:5]:
            twins.read("fetch", name, True)
        twins.read("find_ending", 5_000, 20_000)
        twins.read("rows_between", -5, MANY)
        twins.read("fetch_keys")

    run(spec, data, ops, check)


@SERDES
@settings(max_examples=20)
@given(data=st.data(), retention=RETENTIONS)
def test_versioned_store(key: Any, value: Any, data: Any, retention: int | None) -> None:
    spec = StoreSpec("s", "versioned", key, value, retention_ms=retention)
    ops = operations(
        put=st.tuples(FEW_KEYS, VALUES, TIMES),
        delete=st.tuples(FEW_KEYS, TIMES),
        get=st.tuples(KEYS),
        get_as_of=st.tuples(FEW_KEYS, TIMES),
    )

    def check(twins: Twins) -> None:
        assert twins.paged.time == twins.memory.time
        oldest = -1 if retention is None else twins.memory.time - retention
        for name in NAMES[:5]:
            twins.read("get", name)
            for time in range(0, 19_000, 500):
                twins.read("get_as_of", name, time)
                if time >= oldest:
                    twins.read("valid_to", name, time)

    run(spec, data, ops, check)


@pytest.mark.parametrize("value", [STRING, JSON])
@settings(max_examples=15)
@given(data=st.data())
def test_buffer(value: Any, data: Any) -> None:
    spec = StoreSpec("s", "buffer", STRING, value)
    entries = st.tuples(TIMES, st.sampled_from([b"a", b"b", b"c"]))
    ops = operations(
        put=st.tuples(entries, st.sampled_from(["x", "y" * 30])).map(lambda put: (*put[0], put[1])),
        remove=entries,
        get=entries,
        pop_first=st.tuples(),
    )

    def check(twins: Twins) -> None:
        twins.read("first")
        twins.read("all")

    run(spec, data, ops, check)
