"""Errors in processors: in ``init``, in ``process`` and in punctuators."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver
from millstream.errors import ProcessingError


class Faulty(Processor[Any, Any, Any, Any]):
    where = "nowhere"

    def init(self) -> None:
        self.context.schedule(10, "wall", self.tick)
        self.context.schedule(10, "stream", self.stream_tick)
        self.fail("init")

    def process(self, record: Record[Any, Any]) -> None:
        self.fail("process")
        self.context.forward(record)

    def tick(self, now: int) -> None:
        self.fail("wall")

    def stream_tick(self, now: int) -> None:
        self.fail("stream")

    def fail(self, place: str) -> None:
        if place == self.where:
            raise ValueError(f"in {place}")


def faulty(place: str, **config: Any) -> App:
    app = App("processors", **config)
    app.stream("in").process(type("Faulty", (Faulty,), {"where": place}), name="faulty", key=str).to("out")
    return app


def test_an_error_in_init_fails_the_start_and_names_the_operator() -> None:
    with pytest.raises(ProcessingError, match=r"'faulty' \(task 0_0, function .*init.*ValueError: in init"):
        TestDriver(faulty("init"))


def test_an_error_in_init_fails_the_start_even_if_records_may_be_skipped() -> None:
    with pytest.raises(ProcessingError, match="in init"):
        TestDriver(faulty("init", processing_exception_handler="continue"))


def test_an_error_in_process_names_the_record_and_the_line_of_the_method() -> None:
    with (
        TestDriver(faulty("process")) as driver,
        pytest.raises(
            ProcessingError,
            match=r"'faulty' \(topic in, partition 0, offset 0, function test_processor_errors.py:\d+ in process\): "
            r"ValueError: in process",
        ),
    ):
        driver.input("in").pipe("x")


def test_a_record_that_fails_in_process_can_be_skipped() -> None:
    with TestDriver(faulty("process", processing_exception_handler="continue")) as driver:
        driver.input("in").pipe("x")
        driver.input("in").pipe("y")
        assert driver.output("out").is_empty
        assert driver.dropped == {("faulty", "processing error"): 2}


def test_an_error_in_a_wall_clock_punctuator_names_the_task() -> None:
    with (
        TestDriver(faulty("wall")) as driver,
        pytest.raises(ProcessingError, match=r"'faulty' \(task 0_0, function .* in tick\): ValueError: in wall"),
    ):
        driver.advance_wall_clock(10)


def test_an_error_in_a_stream_time_punctuator_names_the_task() -> None:
    with (
        TestDriver(faulty("stream")) as driver,
        pytest.raises(ProcessingError, match=r"\(task 0_0, function .* in stream_tick\): ValueError: in stream"),
    ):
        driver.input("in").pipe("x")


@pytest.mark.parametrize("clock", ["wall", "stream"])
def test_a_punctuator_that_fails_can_be_continued(clock: str) -> None:
    with TestDriver(faulty(clock, processing_exception_handler="continue")) as driver:
        for time in (0, 10, 20):
            driver.input("in").pipe("k", time, timestamp=time)
            driver.advance_wall_clock(10)
        assert driver.output("out").read_values() == [0, 10, 20]
        assert driver.dropped == {("faulty", "processing error"): 3}


def test_an_error_in_a_punctuator_sends_no_dead_letter() -> None:
    app = faulty("wall", processing_exception_handler="continue", errors_dead_letter_queue_topic_name="dead")
    with TestDriver(app) as driver:
        driver.advance_wall_clock(10)
        assert driver.output("dead").is_empty


def test_close_is_also_called_after_an_error() -> None:
    closed = []

    class Closing(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            raise ValueError("no")

        def close(self) -> None:
            closed.append(True)

    app = App("processors")
    app.stream("in").process(Closing)
    with pytest.raises(ProcessingError), TestDriver(app) as driver:
        driver.input("in").pipe("x")
    assert closed == [True]
