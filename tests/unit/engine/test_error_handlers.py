"""The exception handlers: valid handlers and valid results."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver
from millstream.errors import ConfigError, ProcessingError, RunError

PHASES = ["deserialization", "processing", "production"]


def failing(**config: Any) -> App:
    app = App("errors", **config)
    app.stream("in", value=int).map_values(lambda v: 1 // v, name="divide").to("out")
    return app


@pytest.mark.parametrize("answer", [None, True, "retry", "Continue", 0, [], ("continue",)])
def test_an_invalid_result_of_a_handler_stops_the_application(answer: Any) -> None:
    with (
        TestDriver(failing(processing_exception_handler=lambda context, error: answer)) as driver,
        pytest.raises(RunError, match=r"processing exception handler returned .*\n  hint: a handler returns"),
    ):
        driver.input("in").pipe("k", 0)


def test_the_error_of_an_invalid_result_contains_the_failure() -> None:
    with (
        TestDriver(failing(processing_exception_handler=lambda context, error: None)) as driver,
        pytest.raises(RunError) as caught,
    ):
        driver.input("in").pipe("k", 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_handler_that_raises_stops_the_application() -> None:
    def handler(context: Any, error: BaseException) -> str:
        raise KeyError("handler")

    with (
        TestDriver(failing(processing_exception_handler=handler)) as driver,
        pytest.raises(RunError, match="handler"),
    ):
        driver.input("in").pipe("k", 0)


def test_a_handler_is_called_once_for_each_failure() -> None:
    class Pass(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record)

    calls = []

    def handler(context: Any, error: BaseException) -> str:
        calls.append(context.operator)
        return "fail"

    app = App("errors", processing_exception_handler=handler)
    app.stream("in", value=int).process(Pass, value=int).map_values(lambda v: 1 // v, name="divide").to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError):
        driver.input("in").pipe("k", 0)
    assert calls == ["divide"]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("value", ["contineu", "LogAndContinue", None, 5, True])
def test_an_invalid_handler_is_refused(phase: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{phase}\.exception\.handler.*\n  hint: "):
        App("errors", **{f"{phase}_exception_handler": value})


def test_a_handler_applies_to_its_own_phase_only() -> None:
    app = failing(deserialization_exception_handler="continue", production_exception_handler="continue")
    with TestDriver(app) as driver, pytest.raises(ProcessingError):
        driver.input("in").pipe("k", 0)


def test_a_keyboard_interrupt_does_not_go_to_the_handler() -> None:
    def interrupt(value: int) -> int:
        raise KeyboardInterrupt

    app = App("errors", processing_exception_handler="continue")
    app.stream("in", value=int).map_values(interrupt).to("out")
    with TestDriver(app) as driver, pytest.raises(KeyboardInterrupt):
        driver.input("in").pipe("k", 0)
