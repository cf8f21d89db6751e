"""Asynchronous functions are refused where the topology is built."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver, TopologyError, session, tumbling
from millstream.errors import ConfigError, ProcessingError, SerializationError, SetupError
from millstream.runtime.lifecycle import Lifecycle
from millstream.serde import JSON


async def fetch(*_values: Any) -> Any:
    return 1


async def each(*_values: Any) -> AsyncIterator[Any]:
    yield 1


class Fetcher:
    async def __call__(self, *_values: Any) -> Any:
        return 1

    async def method(self, *_values: Any) -> Any:
        return 1


KINDS: dict[str, Callable[..., Any]] = {
    "function": fetch,
    "generator": each,
    "partial": functools.partial(fetch, 1),
    "partial of a partial": functools.partial(functools.partial(Fetcher(), 1), 2),
    "object": Fetcher(),
    "method": Fetcher().method,
}


def app() -> App:
    return App("asynchronous")


PLACES: dict[str, Callable[[Any], Any]] = {
    "filter": lambda f: app().stream("in").filter(f),
    "map": lambda f: app().stream("in").map(f),
    "map_values": lambda f: app().stream("in").map_values(f),
    "flat_map_values": lambda f: app().stream("in").flat_map_values(f),
    "select_key": lambda f: app().stream("in").select_key(f),
    "foreach": lambda f: app().stream("in").foreach(f),
    "peek": lambda f: app().stream("in").peek(f),
    "split": lambda f: app().stream("in").split({"a": f}),
    "group_by": lambda f: app().stream("in").group_by(f),
    "reduce": lambda f: app().stream("in").group_by_key().reduce(f),
    "initializer": lambda f: app().stream("in").group_by_key().aggregate(f, lambda v, a: a),
    "aggregate": lambda f: app().stream("in").group_by_key().aggregate(lambda: 0, f),
    "windows": lambda f: app().stream("in").group_by_key().windowed_by(tumbling("1m")).reduce(f),
    "merger": lambda f: (
        app().stream("in").group_by_key().windowed_by(session("1m")).aggregate(lambda: 0, lambda v, a: a, f)
    ),
    "joiner": lambda f: (application := app()).stream("in").join(application.table("other"), f),
    "foreign key": lambda f: (application := app()).table("in").join(application.table("other"), lambda a, b: a, on=f),
    "table": lambda f: app().table("in").map_values(f),
    "timestamp": lambda f: app().stream("in", timestamp=f),
    "topic": lambda f: app().stream("in").to(f),
    "partitioner": lambda f: app().stream("in").to("out", partitioner=f),
    "deduplicate": lambda f: app().stream("in").deduplicate("1m", by=f),
    "supplier": lambda f: app().stream("in").process(f),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_asynchronous_function_is_refused_where_it_is_passed(place: str, kind: str) -> None:
    with pytest.raises(TopologyError, match="is asynchronous") as caught:
        PLACES[place](KINDS[kind])
    assert caught.value.at.startswith("test_asynchronous.py:")
    assert caught.value.hint is not None
    assert "plain def" in caught.value.hint


class Asynchronous(Processor[Any, Any, Any, Any]):
    async def process(self, record: Record[Any, Any]) -> None:  # type: ignore[override]
        pass


class Scheduling(Processor[Any, Any, Any, Any]):
    def init(self) -> None:
        self.context.schedule("1s", "stream", fetch)

    def process(self, record: Record[Any, Any]) -> None:
        pass


@pytest.mark.parametrize("supplier", [Asynchronous, functools.partial(Asynchronous)])
@pytest.mark.parametrize("call", ["process", "process_values"])
def test_an_asynchronous_processor_is_refused(supplier: Any, call: str) -> None:
    with pytest.raises(TopologyError, match=r"process\(\) is asynchronous"):
        getattr(app().stream("in"), call)(supplier)


def supply() -> Asynchronous:
    return Asynchronous()


@pytest.mark.parametrize("supplier", [supply, Scheduling])
def test_an_asynchronous_function_that_only_a_task_calls_is_refused_when_the_task_starts(supplier: Any) -> None:
    application = app()
    application.stream("in").process(supplier)
    with pytest.raises(ProcessingError, match="is asynchronous"):
        TestDriver(application)


@pytest.mark.parametrize("phase", ["deserialization", "processing", "production"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_asynchronous_handler_is_refused(phase: str, kind: str) -> None:
    key = f"{phase}.exception.handler"
    with pytest.raises(ConfigError, match=f"{key}: .* is asynchronous"):
        App("asynchronous", config={key: KINDS[kind]})


def test_an_asynchronous_listener_is_refused() -> None:
    with pytest.raises(SetupError, match="is asynchronous"):
        Lifecycle().listen(fetch)  # type: ignore[arg-type]


def test_a_plain_function_around_an_asynchronous_one_is_accepted() -> None:
    @functools.wraps(fetch)
    def waiting(_value: Any) -> int:
        return 1

    app().stream("in").map_values(waiting)


def test_a_coroutine_returned_by_a_plain_function_is_reported_when_it_is_written() -> None:
    coroutine = fetch(1)
    with pytest.raises(SerializationError, match="coroutine") as caught:
        JSON.serialize(coroutine)
    coroutine.close()
    assert "is asynchronous" in (caught.value.hint or "")
