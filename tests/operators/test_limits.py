"""Records that cannot be read, written or forwarded go to the handlers, with topic and offset."""

from __future__ import annotations

import math
from typing import Any

import pytest

from millstream import App, ErrorContext, Processor, Record, TestDriver
from millstream.errors import ProductionError, RecordReadError

UNREADABLE = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "surrogate": b'{"a": "\\ud800 and more text"}',
    "NaN": b'{"a": NaN}',
    "infinity": b"[-Infinity]",
    "real beyond 64 bits": b"1e400",
    "digits": b"1" * 5000,
    "bytes": b'"\xff"',
}


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


UNWRITABLE: dict[str, Any] = {
    "deep": deep(),
    "surrogate": {"a": "\ud800"},
    "NaN": {"a": [math.nan], "b": None},
    "infinity": -math.inf,
    "digits": 10**5000,
    "complex": {"a": [1j]},
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_record_that_cannot_be_deserialized_goes_to_the_handler(kind: str) -> None:
    errors: list[tuple[Any, ...]] = []

    def handle(context: ErrorContext, error: BaseException) -> str:
        errors.append((context.phase, context.topic, context.offset, type(error).__name__))
        return "continue"

    app = App("limits", deserialization_exception_handler=handle)
    app.stream("in", value=object).to("out")
    with TestDriver(app) as driver:
        driver.input("in", value=bytes).pipe_pairs([("k", b"1"), ("k", UNREADABLE[kind]), ("k", b"2")])
        assert driver.output("out").read_values() == [1, 2]
    assert errors == [("deserialization", "in", 1, "DeserializationError")]


@pytest.mark.parametrize("kind", UNWRITABLE)
def test_a_record_that_cannot_be_serialized_goes_to_the_handler(kind: str) -> None:
    errors: list[tuple[Any, ...]] = []

    def handle(context: ErrorContext, error: BaseException) -> str:
        errors.append((context.phase, context.topic, context.offset, type(error).__name__))
        return "continue"

    app = App("limits", production_exception_handler=handle)
    app.stream("in", value=str).map_values(lambda text: UNWRITABLE[kind] if text == "bad" else text).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([("k", "a"), ("k", "bad"), ("k", "b")])
        assert driver.output("out").read_values() == ["a", "b"]
    assert errors == [("production", "in", 1, "SerializationError")]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_the_error_names_the_record_in_a_short_message(kind: str) -> None:
    app = App("limits")
    app.stream("in", value=object).to("out")
    with TestDriver(app) as driver, pytest.raises(RecordReadError) as caught:
        driver.input("in", value=bytes).pipe("k", UNREADABLE[kind])
    assert "topic in, partition 0, offset 0" in caught.value.message
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("kind", UNWRITABLE)
def test_the_error_of_a_result_names_the_record_in_a_short_message(kind: str) -> None:
    app = App("limits")
    app.stream("in", value=str).map_values(lambda _text: UNWRITABLE[kind]).to("out")
    with TestDriver(app) as driver, pytest.raises(ProductionError) as caught:
        driver.input("in").pipe("k", "v")
    assert "topic in, partition 0, offset 0" in caught.value.message
    assert len(str(caught.value)) < 500


def test_a_timestamp_of_more_than_64_bits_goes_to_the_handler() -> None:
    app = App("limits", deserialization_exception_handler="continue")
    app.stream("in", value=dict, timestamp="time").to("out")
    with TestDriver(app) as driver:
        times = [5, 2**63, 2**70, 2**63 - 1]
        driver.input("in").pipe_pairs([("k", {"time": time}) for time in times])
        assert [record.timestamp for record in driver.output("out").read_all()] == [5, 2**63 - 1]
        assert driver.dropped == {("in-source", "deserialization error"): 2}


FORWARDED: dict[str, Any] = {
    "timestamp": Record("k", "v", 2**63),
    "header as text": Record("k", "v", 1, (("a", "text"),)),  # type: ignore[arg-type]
    "name as bytes": Record("k", "v", 1, ((b"a", b"text"),)),  # type: ignore[arg-type]
    "half of a surrogate pair": Record("k", "v", 1, (("\ud800", b"x"),)),
}


@pytest.mark.parametrize("kind", FORWARDED)
def test_a_record_that_cannot_be_written_is_refused_where_it_is_forwarded(kind: str) -> None:
    class Forward(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record if record.value == "good" else FORWARDED[kind])

    app = App("limits", processing_exception_handler="continue")
    app.stream("in", value=str).process(Forward, key=str, value=str, name="forward").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([("k", "good"), ("k", "bad"), ("k", "good")])
        assert driver.output("out").read_values() == ["good", "good"]
        assert driver.dropped == {("forward", "processing error"): 1}
