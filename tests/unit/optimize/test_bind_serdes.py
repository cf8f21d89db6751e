"""Serdes learn their topic, whether they serialize keys or values, and the headers of records."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, TestDriver, tumbling
from millstream.core.records import Headers
from millstream.optimize.bind_serdes import bind_serdes
from millstream.serde import STRING, Serde, SerdeContext, change, list_of, session_windowed, time_windowed, tuple_of


class Bound(Serde[str]):
    """Writes the topic and the part before each value."""

    name = "bound"
    python_type = str

    def __init__(self, context: SerdeContext | None = None) -> None:
        self.context = context

    def bind(self, context: SerdeContext) -> Bound:
        return Bound(context)

    def serialize(self, value: str | None) -> bytes | None:
        assert self.context is not None
        part = "key" if self.context.is_key else "value"
        return None if value is None else f"{self.context.topic}/{part}/{value}".encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode().rpartition("/")[2]


def test_sources_sinks_repartitions_and_stores_bind_their_serdes() -> None:
    app = App("shop")
    stream = app.stream("in", key=Bound(), value=Bound())
    counts = stream.group_by(lambda value: value, key=Bound()).reduce(lambda a, b: a + b, store="sums")
    counts.to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", "v")
        [record] = driver.output("out", key=bytes, value=bytes).read_all()
        assert (record.key, record.value) == (b"out/key/v", b"out/value/v")
        assert driver.output("out").read_pairs() == [("v", "v")]
        [row] = driver.changelog("sums")
        assert (row.key, row.value) == (b"shop-sums-changelog/key/v", b"shop-sums-changelog/value/v")
        repartition = driver.output("shop-sums-repartition", key=bytes, value=bytes)
        assert repartition.read_pairs() == [(b"shop-sums-repartition/key/v", b"shop-sums-repartition/value/v")]


def test_a_table_that_reuses_its_source_topic_binds_its_store_to_that_topic() -> None:
    app = App("shop", topology_optimization="all")
    app.table("in", key=Bound(), value=Bound(), store="rows")
    [spec] = app.topology().stores
    assert isinstance(spec.value, Bound)
    assert spec.value.context is not None
    assert spec.value.context[:2] == ("in", False)


def test_a_sink_that_chooses_topics_binds_its_serdes_for_each_topic() -> None:
    app = App("shop")
    app.stream("in", key=str, value=Bound()).to(lambda key, value: f"out-{key}")
    with TestDriver(app) as driver:
        for key in ("a", "b", "a"):
            driver.input("in").pipe(key, "v")
        assert driver.output("out-a", value=bytes).read_values() == [b"out-a/value/v"] * 2
        assert driver.output("out-b", value=bytes).read_values() == [b"out-b/value/v"]


def test_windowed_keys_and_deduplication_bind_the_serde_of_the_key() -> None:
    app = App("shop")
    stream = app.stream("in", key=Bound(), value=str).deduplicate(within="1m", store="seen")
    stream.group_by_key().windowed_by(tumbling("1m")).count(store="counts").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", "v")
        driver.input("in").pipe("k", "v")
        [record] = driver.output("out", key=bytes).read_all()
        assert record.key.startswith(b"out/key/k")
        assert driver.changelog("seen")[0].key.startswith(b"shop-in-deduplicate/key/k")
        assert driver.changelog("counts")[0].key.startswith(b"shop-counts-changelog/key/k")


@pytest.mark.parametrize(
    "wrapped",
    [list_of(Bound()), change(Bound()), time_windowed(Bound(), 5), session_windowed(Bound()), tuple_of(Bound())],
)
def test_serdes_of_serdes_bind_the_inner_one(wrapped: Any) -> None:
    bound = wrapped.bind(SerdeContext("topic", is_key=True))
    inner = bound.fields[0] if hasattr(bound, "fields") else bound.inner
    assert bound is not wrapped
    assert bound.name == wrapped.name
    assert inner.context.topic == "topic"


def test_the_key_in_a_tuple_is_bound_as_a_key() -> None:
    bound: Any = tuple_of(Bound(), Bound(), keys=1).bind(SerdeContext("topic", is_key=False))
    assert [field.context.is_key for field in bound.fields] == [True, False]


def test_a_plan_without_serdes_that_depend_on_topics_stays_the_same_object() -> None:
    app = App("shop")
    app.stream("in", key=str, value=int).deduplicate(within="1m").group_by_key().count(store="n").to_stream().to("out")
    plan = app.plan()
    assert bind_serdes(plan) is plan
    assert list_of(STRING).bind(SerdeContext("topic", is_key=True)) == list_of(STRING)


class FromHeaders(Serde[str]):
    """Takes the encoding of a text from a header."""

    name = "from-headers"
    python_type = str
    uses_headers = True

    def serialize(self, value: str | None) -> bytes | None:
        return self.serialize_with_headers(value, ())

    def deserialize(self, data: bytes | None) -> str | None:
        return self.deserialize_with_headers(data, ())

    def serialize_with_headers(self, value: str | None, headers: Headers) -> bytes | None:
        return None if value is None else value.encode(self._encoding(headers))

    def deserialize_with_headers(self, data: bytes | None, headers: Headers) -> str | None:
        return None if data is None else data.decode(self._encoding(headers))

    @staticmethod
    def _encoding(headers: Headers) -> str:
        return (dict(headers).get("encoding") or b"utf-8").decode()


@pytest.mark.parametrize("batches", [None, 10])
@pytest.mark.parametrize("options", [{}, {"timestamp": len}])
def test_serdes_that_use_headers_get_those_of_the_record(batches: int | None, options: dict[str, Any]) -> None:
    app = App("texts")
    app.stream("in", value=FromHeaders(), **options).map_values(str.upper, value=FromHeaders()).to("out")
    headers = (("encoding", b"utf-16"),)
    with TestDriver(app, batches=batches) as driver:
        driver.input("in").pipe("k", "plain")
        driver.input("in").pipe("k", "wide", headers=headers)
        raw = driver.output("out", value=bytes).read_values()
        assert raw == [b"PLAIN", "WIDE".encode("utf-16")]
        assert driver.output("out").read_values() == ["PLAIN", "WIDE"]
