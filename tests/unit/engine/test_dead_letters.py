"""The dead-letter topic: the source record of each failure, with Kafka's headers for its cause."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver
from millstream.errors import ConfigError, InvalidNameError, RunError

HEADERS = ["exception", "message", "stacktrace", "topic", "partition", "offset"]


def app_with(**config: Any) -> App:
    """Fails to deserialize text, to process 0, and to serialize 1."""
    app = App("errors", errors_dead_letter_queue_topic_name="dead", **config)
    numbers = app.stream("in", key=str, value=int)
    numbers.map_values(lambda v: 10 // v if v != 1 else "text").to("out", value=int)
    return app


BAD = {
    "deserialization": b"abc",
    "processing": (0).to_bytes(8, "big"),
    "production": (1).to_bytes(8, "big"),
}
ERRORS = {
    "deserialization": b"millstream.errors.DeserializationError",
    "processing": b"builtins.ZeroDivisionError",
    "production": b"millstream.errors.SerializationError",
}
each_phase = pytest.mark.parametrize("phase", BAD)
each_answer = pytest.mark.parametrize("answer", ["continue", "fail"])


def letters(phase: str, answer: str) -> list[Record[Any, Any]]:
    app = app_with(**{f"{phase}_exception_handler": answer})
    with TestDriver(app) as driver:
        driver.input("in", key=bytes, value=bytes).pipe(b"k", (5).to_bytes(8, "big"))
        try:
            driver.input("in", key=bytes, value=bytes).pipe(
                b"k", BAD[phase], timestamp=7, headers=[("own", "1"), ("own", None)]
            )
        except RunError:
            assert answer == "fail"
        return driver.output("dead").read_all()


@each_phase
@each_answer
def test_a_dead_letter_is_the_unchanged_source_record(phase: str, answer: str) -> None:
    (letter,) = letters(phase, answer)
    assert (letter.key, letter.value, letter.timestamp) == (b"k", BAD[phase], 7)
    assert letter.headers[:2] == (("own", b"1"), ("own", None))


@each_phase
@each_answer
def test_the_headers_name_the_error_and_the_source_record(phase: str, answer: str) -> None:
    (letter,) = letters(phase, answer)
    added = letter.headers[2:]
    assert [name for name, _ in added] == [f"__streams.errors.{name}" for name in HEADERS]
    details = {name.rpartition(".")[2]: value for name, value in added}
    assert details["exception"] == ERRORS[phase]
    assert (details["topic"], details["partition"], details["offset"]) == (b"in", b"0", b"1")
    assert details["message"]
    assert (details["stacktrace"] or b"").startswith(b"Traceback")


def test_the_dead_letter_of_an_unreadable_record_is_written_at_once() -> None:
    with TestDriver(app_with(deserialization_exception_handler="continue")) as driver:
        driver.input("in", value=bytes).pipe("k", b"text")
        assert driver.output("dead").read_pairs() == [(b"k", b"text")]


def test_a_handler_function_writes_dead_letters_too() -> None:
    with TestDriver(app_with(processing_exception_handler=lambda context, error: "continue")) as driver:
        driver.input("in", key=bytes, value=bytes).pipe(b"k", BAD["processing"])
        assert len(driver.output("dead")) == 1


def test_a_record_that_fails_in_two_operators_has_two_dead_letters() -> None:
    app = App("errors", errors_dead_letter_queue_topic_name="dead", processing_exception_handler="continue")
    numbers = app.stream("in", value=int)
    numbers.map_values(lambda v: 1 // v).to("a")
    numbers.map_values(lambda v: 1 % v).to("b")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 0)
        assert len(driver.output("dead")) == 2


def test_the_dead_letter_of_a_failure_after_a_repartition_is_the_record_of_the_repartition_topic() -> None:
    app = App("errors", errors_dead_letter_queue_topic_name="dead", processing_exception_handler="continue")
    app.stream("in", value=int).repartition(name="again").map_values(lambda v: 1 // v).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 0)
        assert dict(driver.output("dead").read().headers)["__streams.errors.topic"] == b"errors-again-repartition"


def test_the_dead_letter_topic_is_read_as_bytes_by_default() -> None:
    app = App("errors", errors_dead_letter_queue_topic_name="dead", processing_exception_handler="continue")
    app.stream("in").map_values(lambda v: 1 // v).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 0)
        assert driver.output("dead").read_pairs() == [(b"k", b"0")]
        assert driver.output("dead", key=str, value=object).read_pairs() == [("k", 0)]


def test_an_application_can_read_its_own_dead_letters() -> None:
    app = App("errors", errors_dead_letter_queue_topic_name="dead", processing_exception_handler="continue")
    app.stream("in", value=int).map_values(lambda v: 1 // v).to("out")
    app.stream("dead", value=int).map_values(lambda v: f"failed: {v}").to("report")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 0)
        assert driver.output("report").read_values() == ["failed: 0"]


def test_without_the_topic_there_are_no_dead_letters() -> None:
    app = App("errors", processing_exception_handler="continue")
    app.stream("in", value=int).map_values(lambda v: 1 // v).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 0)
        assert driver.produced_topics == set()


def test_a_processor_that_fails_after_forwarding_has_one_dead_letter_and_its_forwarded_records_remain() -> None:
    class Late(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record)
            raise ValueError("too late")

    app = App("errors", errors_dead_letter_queue_topic_name="dead", processing_exception_handler="continue")
    app.stream("in").process(Late).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        assert (len(driver.output("out")), len(driver.output("dead"))) == (1, 1)


@pytest.mark.parametrize("topic", ["", "..", "a/b", 5])
def test_the_name_of_the_topic_is_checked(topic: Any) -> None:
    with pytest.raises((ConfigError, InvalidNameError), match=r"errors\.dead\.letter\.queue\.topic\.name"):
        App("errors", errors_dead_letter_queue_topic_name=topic)
