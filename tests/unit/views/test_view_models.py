"""Views agree with their stores, over random operations of several tasks, published in random batches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.views.harness import Tasks, database, open_

from millstream.serde import JSON, STRING
from millstream.state.spec import StoreSpec

SEGMENT = 60_000
KEYS = ["a", "ab", "é", "", "\x7f"]
ASKED = [*KEYS, "never"]
KEY = st.sampled_from(KEYS)
VALUE = st.sampled_from([None, "", "x", "y"])
FEW_KEYS = st.sampled_from(KEYS[:2])
NEAR = st.integers(SEGMENT - 3, SEGMENT + 3) | st.integers(SEGMENT - 50, SEGMENT + 50)  # versions meet, and expire
TIME = st.integers(SEGMENT - 9, SEGMENT + 9) | st.integers(SEGMENT - 50, SEGMENT + 50)
RETENTION = st.sampled_from([None, 0, 1, 7, 20, 40])
PARTITIONS = st.integers(1, 3)
MOMENTS = [SEGMENT - 4, SEGMENT, SEGMENT + 3]
SPANS = [(-(2**70), 2**70), (SEGMENT - 4, SEGMENT + 3), (5, 1)]
BOUNDS = [(None, None), ("a", "b"), ("ab", None), (None, "a"), ("é", "a")]
SERDES = pytest.mark.parametrize(("key", "value"), [(STRING, STRING), (JSON, JSON)])


def operations(**kinds: Any) -> Any:
    """Batches of (partition, operation, arguments)."""
    operation = st.one_of(
        [st.tuples(st.integers(0, 2), st.just(name), st.tuples(*arguments)) for name, arguments in kinds.items()]
    )
    return st.lists(
        st.lists(operation, max_size=4) | st.lists(operation, min_size=12, max_size=16), min_size=1, max_size=3
    )


def keys_at_home(batches: Any) -> Any:
    """The same operations, with each key in one partition, as all windows of a key are in one task."""
    return [
        [
            (partition if name == "release" else KEYS.index(arguments[0]), name, arguments)
            for partition, name, arguments in b
        ]
        for b in batches
    ]


def run(spec: StoreSpec, partitions: int, batches: Any, check: Callable[[Any, Any], None]) -> None:
    with database() as (_, connection, reader):
        tasks = Tasks(connection, spec, partitions)
        tasks.publish()
        plain = open_(reader, spec)
        for batch in batches:
            for number, (partition, name, arguments) in enumerate(batch):
                if spec.timestamped and name == "put" and arguments[-1] is not None:
                    arguments = (*arguments[:-1], (arguments[-1], 100 + number))  # noqa: PLW2901
                getattr(tasks.stores[partition % partitions], name)(*arguments)
            tasks.publish()
            check(plain, tasks.in_memory())
            if spec.timestamped:
                with reader.snapshot():
                    check(open_(reader, spec, timestamped=True), tasks.in_memory(timestamped=True))


@SERDES
@given(timestamped=st.booleans(), partitions=PARTITIONS, batches=operations(put=(KEY, VALUE)))
def test_the_view_of_a_key_value_store_agrees(
    key: Any, value: Any, timestamped: bool, partitions: int, batches: Any
) -> None:
    def check(view: Any, expected: Any) -> None:
        for asked in ASKED:
            assert view.get(asked) == expected.get(asked)
            assert list(view.prefix_scan(asked)) == list(expected.prefix_scan(asked))
        for low, high in BOUNDS:
            assert list(view.range(low, high)) == list(expected.range(low, high))
            assert list(view.reverse_range(low, high)) == list(expected.reverse_range(low, high))
        assert list(view.all()) == list(expected.all())
        assert list(view.reverse_all()) == list(expected.reverse_all())
        assert view.approximate_num_entries() == expected.approximate_num_entries()

    run(StoreSpec("s", "key-value", key, value, timestamped=timestamped), partitions, batches, check)


def check_windows(view: Any, expected: Any) -> None:
    for asked in ASKED:
        for start in MOMENTS:
            assert view.fetch(asked, start) == expected.fetch(asked, start)
        for low, high in SPANS:
            assert view.fetch(asked, low, high) == expected.fetch(asked, low, high)
            assert view.backward_fetch(asked, low, high) == expected.backward_fetch(asked, low, high)
    for low, high in SPANS:
        assert view.fetch_all(low, high) == expected.fetch_all(low, high)
        assert view.backward_fetch_all(low, high) == expected.backward_fetch_all(low, high)
    for keys in BOUNDS:
        assert view.fetch_range(*keys, *SPANS[0]) == expected.fetch_range(*keys, *SPANS[0])
        assert view.backward_fetch_range(*keys, *SPANS[1]) == expected.backward_fetch_range(*keys, *SPANS[1])
    assert view.all() == expected.all()
    assert view.backward_all() == expected.backward_all()


@given(
    options=st.fixed_dictionaries(
        {
            "timestamped": st.booleans(),
            "held": st.booleans(),
            "retention_ms": RETENTION,
            "window_size_ms": st.sampled_from([None, 10]),
        }
    ),
    partitions=PARTITIONS,
    batches=operations(put=(KEY, TIME, VALUE), release=(TIME,)),
)
def test_the_view_of_a_window_store_agrees(options: Any, partitions: int, batches: Any) -> None:
    run(StoreSpec("s", "window", STRING, STRING, **options), partitions, keys_at_home(batches), check_windows)


@given(partitions=PARTITIONS, retention=RETENTION, batches=operations(put=(KEY, TIME, VALUE)))
def test_the_view_of_a_store_with_duplicates_agrees(partitions: int, retention: int | None, batches: Any) -> None:
    spec = StoreSpec("s", "window", STRING, STRING, duplicates=True, retention_ms=retention, window_size_ms=10)
    run(spec, partitions, keys_at_home(batches), check_windows)


def check_sessions(view: Any, expected: Any) -> None:
    for asked in ASKED:
        sessions = expected.fetch(asked)
        assert view.fetch(asked) == sessions
        assert view.backward_fetch(asked) == expected.backward_fetch(asked)
        assert [view.fetch_session(*session) for session, _ in sessions] == [value for _, value in sessions]
        assert view.fetch_session(asked, SEGMENT, SEGMENT + 2) == expected.fetch_session(asked, SEGMENT, SEGMENT + 2)
        for low, high in SPANS:
            assert view.find_sessions(asked, low, high) == expected.find_sessions(asked, low, high)
            assert view.backward_find_sessions(asked, low, high) == expected.backward_find_sessions(asked, low, high)
    for keys in BOUNDS:
        assert view.fetch_range(*keys) == expected.fetch_range(*keys)
        assert view.backward_fetch_range(*keys) == expected.backward_fetch_range(*keys)
        assert view.find_sessions_range(*keys, *SPANS[1]) == expected.find_sessions_range(*keys, *SPANS[1])
    for low, high in SPANS:
        assert view.find_sessions_ending(low, high) == expected.find_sessions_ending(low, high)


@given(
    options=st.fixed_dictionaries({"timestamped": st.booleans(), "held": st.booleans(), "retention_ms": RETENTION}),
    partitions=PARTITIONS,
    batches=operations(
        put=(KEY, TIME, st.integers(0, 20), VALUE), remove=(KEY, TIME, st.integers(0, 20)), release=(TIME,)
    ),
)
def test_the_view_of_a_session_store_agrees(options: Any, partitions: int, batches: Any) -> None:
    for batch in batches:
        for place, (partition, name, arguments) in enumerate(batch):
            if name != "release":
                key, start, length, *row = arguments
                batch[place] = partition, name, (key, start, start + length, *row)
    run(StoreSpec("s", "session", STRING, STRING, **options), partitions, keys_at_home(batches), check_sessions)


@SERDES
@given(
    partitions=PARTITIONS,
    retention=RETENTION,
    batches=operations(put=(FEW_KEYS, VALUE, NEAR), delete=(FEW_KEYS, NEAR)),
)
def test_the_view_of_a_versioned_store_agrees(
    key: Any, value: Any, partitions: int, retention: int | None, batches: Any
) -> None:
    def check(view: Any, expected: Any) -> None:
        for asked in ASKED:
            assert view.get(asked) == expected.get(asked)
            for moment in [-(2**70), SEGMENT - 9, *range(SEGMENT - 3, SEGMENT + 4), SEGMENT + 30, 2**70]:
                assert view.get(asked, moment) == expected.get(asked, moment)

    run(StoreSpec("s", "versioned", key, value, retention_ms=retention), partitions, keys_at_home(batches), check)


@pytest.mark.parametrize("options", [{}, {"held": True}, {"duplicates": True}])
def test_windows_and_sessions_expire_one_by_one(options: Any) -> None:
    specs = [StoreSpec("w", "window", STRING, STRING, retention_ms=50, **options)]
    if "duplicates" not in options:
        specs.append(StoreSpec("s", "session", STRING, STRING, retention_ms=50, **options))
    for spec in specs:
        with database() as (_, connection, reader):
            tasks = Tasks(connection, spec)
            for time in range(150):
                if spec.kind == "window":
                    tasks.stores[0].put("k", time, "v")
                else:
                    tasks.stores[0].put("k", time - 3, time, "v")
                tasks.publish()
                view, expected = open_(reader, spec), tasks.in_memory()
                if spec.kind == "window":
                    assert view.all() == expected.all()
                else:
                    assert view.fetch("k") == expected.fetch("k")


@pytest.mark.parametrize("batches", [1, 5])
def test_versions_may_be_put_in_any_order(batches: int) -> None:
    puts = list(product([1, 2, 3], [True, False]))
    orders = list(product(puts, repeat=5))
    spec = StoreSpec("s", "versioned", STRING, STRING)
    with database() as (_, connection, reader):
        tasks = Tasks(connection, spec)
        for step in range(5):
            for number, order in enumerate(orders):
                timestamp, tombstone = order[step]
                tasks.stores[0].put(str(number), None if tombstone else str(step), timestamp)
            if batches == 5:
                tasks.publish()
        tasks.publish()
        view, expected = open_(reader, spec), tasks.in_memory()
        with reader.snapshot():
            for number, order in enumerate(orders):
                for moment in [None, 1, 2, 3]:
                    assert view.get(str(number), moment) == expected.get(str(number), moment), order
