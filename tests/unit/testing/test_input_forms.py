"""The forms of records that can be piped, and the errors for others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from millstream import App, Record, TestDriver, TopologyError


def driver() -> TestDriver:
    app = App("test")
    app.stream("in", key=str, value=str).to("out")
    return TestDriver(app)


def test_a_record_object_can_be_piped() -> None:
    made = driver()
    made.input("in").pipe(Record("k", "v", 5))
    assert made.output("out").read_all() == [Record("k", "v", 5)]


@pytest.mark.parametrize("timestamp", ["5s", 1.5, 2**63, True])
def test_an_invalid_timestamp_is_refused(timestamp: Any) -> None:
    with pytest.raises(TopologyError, match="is not a timestamp"):
        driver().input("in").pipe("k", "v", timestamp=timestamp)


def test_an_invalid_record_is_refused() -> None:
    with pytest.raises(TypeError, match="write Record"):
        driver().input("in").pipe_records([("k", "v", 5)])  # type: ignore[list-item]


def test_an_invalid_application_is_refused() -> None:
    with pytest.raises(TopologyError, match="expected an App"):
        TestDriver("app")  # type: ignore[arg-type]


@dataclass
class Reading:
    at: int


def test_a_misspelt_timestamp_field_is_refused_when_the_type_is_known() -> None:
    with pytest.raises(TopologyError, match=r"att[\s\S]*did you mean"):
        App("test").stream("in", value=Reading, timestamp="att")


def test_a_list_of_topics_is_accepted() -> None:
    app = App("test")
    app.stream(["a", "b"], key=str, value=str).to("out")  # type: ignore[call-overload]
    made = TestDriver(app)
    made.input("b").pipe("k", "v")
    assert made.output("out").read_values() == ["v"]
