"""Routes log lines: errors to a topic that somebody watches, the rest by level, what cannot be read to dead letters.

A line that is not as it should be is not worth stopping for: the handlers let the application go on, and the line goes
to the topic ``dead-lines``, with headers that say what was wrong with it. Any other error is a mistake in the program,
and does stop it.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from millstream import App, ErrorContext, col

LINE = re.compile(r"(?P<time>\S+Z) (?P<level>DEBUG|INFO|WARNING|ERROR|FATAL) (?P<service>[\w.-]+): (?P<text>.*)")


class MalformedLineError(ValueError):
    """A line that is not a log line."""


def parse(line: str) -> dict[str, Any]:
    """The parts of a line. Only known levels are taken: the level becomes part of a topic's name."""
    found = LINE.fullmatch(line.strip())
    if found is None:
        raise MalformedLineError(f"not a log line: {line[:80]!r}")
    return found.groupdict()


def topic_of(entry: dict[str, Any]) -> str:
    return f"logs-{entry['level'].lower()}"


def go_on_if_malformed(_context: ErrorContext, error: BaseException) -> Literal["fail", "continue"]:
    return "continue" if isinstance(error, MalformedLineError) else "fail"


app = App(
    "log-routing",
    deserialization_exception_handler="continue",  # bytes that are not text
    processing_exception_handler=go_on_if_malformed,
    errors_dead_letter_queue_topic_name="dead-lines",
)
lines = app.stream("log-lines", value=str).filter(lambda line: line is not None)
branches = lines.map_values(parse).split({"urgent": col("level").in_("ERROR", "FATAL")}, default="rest")
branches["urgent"].to("logs-high-priority")
branches["rest"].to(topic_of)

if __name__ == "__main__":
    app.run()
