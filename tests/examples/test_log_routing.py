from __future__ import annotations

import pytest
from examples.log_routing.app import app

from millstream import TestDriver

GOOD = "2026-01-01T00:00:00Z {level} shop: request served"


def test_errors_go_to_the_alert_topic_and_other_lines_to_the_topic_of_their_level() -> None:
    levels = ["INFO", "ERROR", "DEBUG", "FATAL", "WARNING", "INFO"]
    with TestDriver(app) as driver:
        driver.input("log-lines").pipe_pairs([("north", GOOD.format(level=level)) for level in levels])
        assert driver.produced_topics == {"logs-high-priority", "logs-info", "logs-debug", "logs-warning"}
        urgent = driver.output("logs-high-priority").read_pairs()
        assert [(key, entry["level"]) for key, entry in urgent] == [("north", "ERROR"), ("north", "FATAL")]
        assert driver.output("logs-debug").read_values() == [
            {"time": "2026-01-01T00:00:00Z", "level": "DEBUG", "service": "shop", "text": "request served"}
        ]
        assert len(driver.output("logs-info")) == 2


@pytest.mark.parametrize("line", ["", "2026-01-01T00:00:00Z INFO", GOOD.format(level="../etc"), "Traceback:"])
def test_a_malformed_line_is_a_dead_letter_and_the_next_one_is_processed(line: str) -> None:
    with TestDriver(app) as driver:
        driver.input("log-lines").pipe("north", line, timestamp=5)
        driver.input("log-lines").pipe("north", GOOD.format(level="INFO"), timestamp=6)
        assert driver.produced_topics == {"dead-lines", "logs-info"}
        letter = driver.output("dead-lines", key=str, value=str).read()
        assert (letter.key, letter.value, letter.timestamp) == ("north", line, 5)
        headers = dict(letter.headers)
        assert headers["__streams.errors.message"] == f"not a log line: {line!r}".encode()
        assert headers["__streams.errors.topic"] == b"log-lines"
        assert driver.dropped == {("log-lines-map-values", "processing error"): 1}


def test_bytes_that_are_not_text_are_a_dead_letter_too() -> None:
    with TestDriver(app) as driver:
        driver.input("log-lines", key=str, value=bytes).pipe("north", b"\xff\xfe")
        assert driver.output("dead-lines", key=str, value=bytes).read_values() == [b"\xff\xfe"]
        assert driver.dropped == {("log-lines-source", "deserialization error"): 1}


def test_records_without_a_value_are_skipped() -> None:
    with TestDriver(app) as driver:
        driver.input("log-lines").pipe("north", None)
        assert driver.produced_topics == set()
