"""Shared by the tests of operators: piping records, reading results, and checking refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream import App, TestDriver, TopologyError


def run(app: App, *records: tuple[Any, ...], topic: str = "in", **options: Any) -> TestDriver:
    """Starts an application and pipes (key, value, timestamp) records, with headers as a fourth part, into a topic."""
    return send(TestDriver(app, **options), *records, topic=topic)


def send(driver: TestDriver, *records: tuple[Any, ...], topic: str = "in") -> TestDriver:
    """Pipes more records."""
    for key, value, timestamp, *headers in records:
        driver.input(topic).pipe(key, value, timestamp=timestamp, headers=headers[0] if headers else ())
    return driver


def rows(driver: TestDriver, topic: str = "out") -> list[tuple[Any, Any, int]]:
    """Returns the records of a topic as (key, value, timestamp); a windowed key is (key, start, end)."""
    return [(record.key, record.value, record.timestamp) for record in driver.output(topic).read_all()]


def refused(call: Callable[[], object], *words: str, hint: bool = True) -> TopologyError:
    """Checks that a call is refused with an error that has the user's line, these words and, if required, a hint."""
    with pytest.raises(TopologyError) as caught:
        call()
    error, text = caught.value, str(caught.value)
    code = call.__code__
    assert text.startswith(f"{Path(code.co_filename).name}:"), f"the user's line is not named: {text}"
    assert error.hint or not hint, f"there is no hint: {text}"
    for word in words:
        assert word in text
    return error
