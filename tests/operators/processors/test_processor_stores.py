"""Stores of processors: added by name, of each kind, accessible only to connected processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver, TopologyError, Windowed
from millstream.errors import ProcessingError, StateError, UnknownStoreError
from millstream.state.stores import ValueAndTimestamp


def with_store(work: Callable[[Any, Record[Any, Any]], Any], *args: Any, **options: Any) -> App:
    """Returns an application whose processor calls ``work(store, record)`` and forwards the result."""

    class Worker(Processor[Any, Any, Any, Any]):
        def init(self) -> None:
            self.store = self.context.store("data")

        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value(work(self.store, record)))

    app = App("processors")
    app.add_store("data", *args, **options)
    app.stream("in", value=int).process(Worker, "data", key=str, value=object).to("out")
    return app


def test_a_key_value_store() -> None:
    def count(store: Any, record: Record[Any, Any]) -> Any:
        store.put(record.key, (store.get(record.key) or 0) + record.value)
        return list(store.all())

    with TestDriver(with_store(count, value=int)) as driver:
        driver.input("in").pipe_pairs([("b", 1), ("a", 2), ("b", 3)])
        assert driver.output("out").read_values() == [[["b", 1]], [["a", 2], ["b", 1]], [["a", 2], ["b", 4]]]
        assert driver.store("data").get("b") == 4


def test_a_timestamped_store_has_a_timestamp_with_each_value() -> None:
    def latest(store: Any, record: Record[Any, Any]) -> Any:
        before = store.get(record.key)
        store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))
        return None if before is None else [before.value, before.timestamp]

    with TestDriver(with_store(latest, "timestamped", value=int)) as driver:
        driver.input("in", start=5, advance=5).pipe_pairs([("a", 1), ("a", 2)])
        assert driver.output("out").read_values() == [None, [1, 5]]
        assert driver.store("data").get("a") == 2
        assert driver.store("data", timestamped=True).get("a") == (2, 10)


def test_a_window_store() -> None:
    def seen(store: Any, record: Record[Any, Any]) -> Any:
        store.put(record.key, record.value, record.timestamp)
        return store.fetch(record.key, record.timestamp - 10, record.timestamp)

    with TestDriver(with_store(seen, "window", value=int, retention="1m", window_size=10)) as driver:
        driver.input("in", advance=6).pipe_pairs([("a", 1), ("a", 2), ("a", 3)])
        assert driver.output("out").read_values() == [[[0, 1]], [[0, 1], [6, 2]], [[6, 2], [12, 3]]]
        assert driver.store("data").all()[0] == (Windowed("a", 0, 10), 1)


def test_a_session_store() -> None:
    def visit(store: Any, record: Record[Any, Any]) -> Any:
        store.put(Windowed(record.key, record.timestamp, record.timestamp + 5), record.value)
        return [[w.start, w.end, v] for w, v in store.find_sessions(record.key, 0, 100)]

    with TestDriver(with_store(visit, "session", value=int, retention="1m")) as driver:
        driver.input("in", advance=50).pipe_pairs([("a", 1), ("a", 2)])
        assert driver.output("out").read_values() == [[[0, 5, 1]], [[0, 5, 1], [50, 55, 2]]]
        assert driver.store("data").fetch_session("a", 0, 5) == 1


def test_a_versioned_store() -> None:
    def version(store: Any, record: Record[Any, Any]) -> Any:
        store.put(record.key, record.value, record.timestamp)
        row = store.get(record.key, as_of=5)
        return None if row is None else row.value

    with TestDriver(with_store(version, "versioned", value=int, retention="1m")) as driver:
        driver.input("in", start=6).pipe("a", 2)
        driver.input("in", start=4).pipe("a", 1)
        assert driver.output("out").read_values() == [None, 1]
        assert driver.store("data").get("a").value == 2


def test_several_processors_may_share_a_store() -> None:
    class Put(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store("shared").put(record.key, record.value)

    class Get(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record.with_value(self.context.store("shared").get(record.key)))

    app = App("processors")
    app.add_store("shared", value=int)
    app.stream("writes", value=int).process(Put, "shared")
    app.stream("reads", value=int).process(Get, "shared", key=str, value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("reads").pipe("k", 0)
        driver.input("writes").pipe("k", 7)
        driver.input("reads").pipe("k", 0)
        assert driver.output("out").read_values() == [None, 7]


def test_a_processor_may_read_the_store_of_a_table() -> None:
    class Lookup(Processor[str, str, str, Any]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(self.context.store("prices").get_value(record.value)))

    app = App("processors")
    app.table("prices", value=int, store="prices")
    app.stream("in", value=str).process(Lookup, "prices").to("out")
    with TestDriver(app) as driver:
        driver.input("prices").pipe("tea", 3)
        driver.input("in").pipe("k", "tea")
        assert driver.output("out").read_values() == [3]


def test_connecting_an_unknown_store_is_refused_with_a_suggestion() -> None:
    app = App("processors")
    app.add_store("counts", value=int)
    with pytest.raises(TopologyError, match=r"test_processor_stores.py:\d+: .*'count'\n  hint: did you mean 'counts'"):
        app.stream("in").process(Processor, "count")


class Asks(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.store(record.value)


def test_opening_a_store_that_is_not_connected_fails_with_a_suggestion() -> None:
    app = App("processors")
    app.add_store("counts")
    app.add_store("hidden")
    app.stream("in").process(Asks, "counts", name="asking")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="did you mean 'counts'") as caught:
        driver.input("in").pipe("cuonts")
    assert isinstance(caught.value.__cause__, UnknownStoreError)
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"not connected .*'hidden'\n  hint: connect"):
        driver.input("in").pipe("hidden")


def test_a_store_has_one_owner() -> None:
    app = App("processors")
    app.add_store("counts")
    with pytest.raises(TopologyError, match=r"already a store named 'counts', made at test_processor_stores.py:\d+"):
        app.add_store("counts")


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("key-value", {"retention": "1h"}, "has no retention"),
        ("timestamped", {"retention": "1h"}, "has no retention"),
        ("window", {"window_size": 5}, "needs a retention"),
        ("window", {"retention": "1h"}, "window_size"),
        ("session", {}, "needs a retention"),
        ("versioned", {}, "needs a retention"),
        ("session", {"retention": "1h", "window_size": 5}, "window_size"),
        ("kv", {}, "unknown kind of store: 'kv'"),
        ("window", {"retention": -1, "window_size": 5}, "negative"),
        ("window", {"retention": 1, "window_size": 5}, "shorter"),
        ("key-value", {"duplicates": True}, "duplicates"),
    ],
)
def test_options_that_do_not_fit_the_kind_are_refused(kind: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        App("processors").add_store("data", kind, **options)


def test_writing_through_the_drivers_view_is_refused() -> None:
    app = with_store(lambda store, record: None)
    with TestDriver(app) as driver, pytest.raises(StateError, match="read-only"):
        driver.store("data").put("a", 1)
