"""A paged store returns the same results as a store in memory, over random operations, commits and crashes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.state.paged.remote import Twins

from millstream.serde import JSON, LONG, STRING
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec

SERDES = pytest.mark.parametrize(("key", "value"), [(STRING, STRING), (STRING, JSON), (JSON, STRING)])
NAMES = [f"key{n}" for n in range(12)]
KEYS = st.sampled_from(NAMES)
FEW_KEYS = st.sampled_from(NAMES[:5])
VALUES = st.sampled_from([None, "x", "y" * 30, "z"])
TIMES = st.integers(0, 12).map(lambda n: n * 1_500)
RETENTIONS = st.sampled_from([0, 3_000, 8_000, 20_000, None])
OPTIONS = st.fixed_dictionaries(
    {
        "page_bytes": st.sampled_from([60, 200, 8192]),
        "memory_limit": st.sampled_from([0, 2_000, 10**9]),
        "log_limit": st.sampled_from([0, 10_000, None]),
    }
)
MANY = 10**9


def operations(**kinds: Any) -> Any:
    usual = {"commit": st.tuples(), "crash": st.tuples(), "check": st.tuples()}
    kinds = {**kinds, **usual}
    calls = {name: st.tuples(st.just(name), arguments) for name, arguments in kinds.items()}
    call = st.one_of([*calls.values(), calls["put"], calls["put"], calls["commit"]])
    return st.lists(call, max_size=12) | st.lists(call, min_size=40, max_size=80)


def run(twins: Twins, ops: list[Any], check: Any) -> None:
    for name, arguments in ops:
        if name == "check":
            check(twins)
        elif name in {"commit", "crash"}:
            getattr(twins, name)()
        else:
            twins.call(name, *arguments)
    check(twins)
    twins.commit()
    check(twins)
    twins.crash()
    check(twins)
    assert twins.remote.wrongly_deleted == []


def row_of(spec: StoreSpec, rows: Any = VALUES) -> Any:
    return rows.map(lambda value: None if value is None else (value, 7)) if spec.timestamped else rows


@SERDES
@given(data=st.data(), options=OPTIONS, timestamped=st.booleans())
def test_key_value_stores_agree(key: Any, value: Any, data: Any, options: Any, timestamped: bool) -> None:
    spec = StoreSpec("s", "key-value", key, value, timestamped)

    def check(twins: Twins) -> None:
        for name in NAMES[::5]:
            twins.read("get", name)
        twins.read("prefix", key.serialize("key1"))
        twins.read("range", "key1", "key3")
        twins.read("range", None, None, True)
        assert len(twins.paged) == len(twins.memory)

    run(
        Twins(spec, **options),
        data.draw(operations(put=st.tuples(KEYS, row_of(spec)), get=st.tuples(KEYS), prefix=st.just((b"key1",)))),
        check,
    )


@SERDES
@given(data=st.data(), options=OPTIONS, timestamped=st.booleans(), held=st.booleans(), retention=RETENTIONS)
def test_window_stores_agree(
    key: Any, value: Any, data: Any, options: Any, timestamped: bool, held: bool, retention: int | None
) -> None:
    spec = StoreSpec("s", "window", key, value, timestamped, retention, 10, held=held)
    ops = operations(
        put=st.tuples(FEW_KEYS, TIMES, row_of(spec)),
        get=st.tuples(FEW_KEYS, TIMES),
        fetch=st.tuples(FEW_KEYS, TIMES, TIMES),
        rows_between=st.tuples(TIMES, TIMES),
        release=st.tuples(TIMES),
    )
    run(Twins(spec, **options), data.draw(ops), check_windows)


@pytest.mark.parametrize("named", [False, True])
@given(data=st.data(), options=OPTIONS)
def test_counts_agree_with_single_puts(named: bool, data: Any, options: Any) -> None:
    """Counting many keys at once, among puts and removals, gives the same rows and changes as single puts."""
    spec = StoreSpec("s", "window", STRING, LONG, True, 20_000, 10)
    single: Any = open_store(spec)
    twins = Twins(spec, **options)
    ops = operations(
        put=st.tuples(FEW_KEYS, TIMES, st.sampled_from([None, (3, 7)])),
        count=st.tuples(st.lists(FEW_KEYS, min_size=1, max_size=8), TIMES, st.integers(0, 30)),
        get=st.tuples(FEW_KEYS, TIMES),
    )
    for name, arguments in [*data.draw(ops), ("check", ()), ("commit", ()), ("crash", ()), ("check", ())]:
        if name == "count":
            keys, start, time = arguments
            if start <= twins.memory.time - 20_000:  # expired windows are not counted
                continue
            times = [(time + 7 * place) % 40 for place in range(len(keys))]
            names = [key.encode() for key in keys] if named else None
            expected = []
            for key, timestamp in zip(keys, times, strict=True):
                count, before = single.get(key, start) or (0, 0)
                single.put(key, start, (count + 1, max(before, timestamp)))
                expected.append(single.get(key, start))
            assert list(zip(*twins.call("count_all", keys, start, times, names), strict=True)) == expected
        elif name == "check":
            check_windows(twins)
            assert twins.memory.all() == single.all()
        elif name == "commit":
            assert sorted(twins.commit()) == sorted(single.changes())
        elif name == "crash":
            twins.crash()
        else:
            twins.call(name, *arguments)
            if name == "put":
                single.put(*arguments)


def check_windows(twins: Twins) -> None:
    assert twins.paged.time == twins.memory.time
    for name in NAMES[:5]:
        twins.read("fetch", name, -5, MANY)
        twins.read("fetch", name, 5_000, 9_000, True)
        twins.read("get", name, twins.memory.time)
    twins.read("fetch_keys", "key1", "key3", 5_000, 20_000)
    twins.read("fetch_all", 5_000, 9_000)
    twins.read("rows_between", -5, MANY)
    twins.read("all", True)


@SERDES
@given(data=st.data(), options=OPTIONS, timestamped=st.booleans(), retention=RETENTIONS)
def test_window_stores_with_duplicates_agree(
    key: Any, value: Any, data: Any, options: Any, timestamped: bool, retention: int | None
) -> None:
    spec = StoreSpec("s", "window", key, value, timestamped, retention, duplicates=True)
    ops = operations(
        put=st.tuples(FEW_KEYS, TIMES, row_of(spec)),
        get=st.tuples(FEW_KEYS, TIMES),
        fetch=st.tuples(FEW_KEYS, TIMES, TIMES),
    )
    run(Twins(spec, **options), data.draw(ops), check_windows)


SESSIONS = st.tuples(FEW_KEYS, TIMES, st.integers(0, 3)).map(lambda s: (s[0], s[1], s[1] + s[2] * 400))


@SERDES
@given(data=st.data(), options=OPTIONS, timestamped=st.booleans(), held=st.booleans(), retention=RETENTIONS)
def test_session_stores_agree(
    key: Any, value: Any, data: Any, options: Any, timestamped: bool, held: bool, retention: int | None
) -> None:
    spec = StoreSpec("s", "session", key, value, timestamped, retention, held=held)
    ops = operations(
        put=st.tuples(SESSIONS, row_of(spec)).map(lambda put: (*put[0], put[1])),
        remove=SESSIONS,
        get=SESSIONS,
        find=st.tuples(FEW_KEYS, TIMES, TIMES),
        rows_between=st.tuples(TIMES, TIMES),
        release=st.tuples(TIMES),
    )

    def check(twins: Twins) -> None:
        assert twins.paged.time == twins.memory.time
        for name in NAMES[:5]:
            twins.read("find", name, 5_000, 9_000)
            twins.read("fetch", name, True)
        twins.read("fetch_keys", "key1", "key3", 5_000, 20_000)
        twins.read("find_ending", 5_000, 20_000)
        twins.read("rows_between", -5, MANY)
        twins.read("fetch_keys")

    run(Twins(spec, **options), data.draw(ops), check)


@SERDES
@given(data=st.data(), options=OPTIONS, retention=RETENTIONS)
def test_versioned_stores_agree(key: Any, value: Any, data: Any, options: Any, retention: int | None) -> None:
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

    run(Twins(spec, **options), data.draw(ops), check)


@pytest.mark.parametrize("value", [STRING, JSON])
@given(data=st.data(), options=OPTIONS)
def test_buffers_agree(value: Any, data: Any, options: Any) -> None:
    spec = StoreSpec("s", "buffer", STRING, value)
    entries = st.tuples(TIMES, st.sampled_from([b"a", b"b", b"c"]))
    ops = operations(
        put=st.tuples(entries, st.sampled_from(["x", "y" * 30])).map(lambda put: (*put[0], put[1])),
        remove=entries,
        get=entries,
        pop_first=st.tuples(),
        first=st.tuples(),
    )

    def check(twins: Twins) -> None:
        twins.read("first")
        twins.read("all")
        assert len(twins.paged) == len(twins.memory)

    run(Twins(spec, **options), data.draw(ops), check)
