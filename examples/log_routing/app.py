"""Routes log lines: errors to a topic for alerts, other levels to a topic each, malformed lines to dead letters.

A malformed line does not stop the application: the handlers skip it, and send it to the topic ``dead-lines`` with
headers that describe the error. Any other error is a bug in the program, and stops it.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from millstream import App, ErrorContext, col

LINE = re.compile(r"(?P<time>\S+Z) (?P<level>DEBUG|INFO|WARNING|ERROR|FATAL) (?P<service>[\w.-]+): (?P<text>.*)")


class MalformedLineError(ValueError):
    """A line is not a log line."""


def parse(line: str) -> dict[str, Any]:
    """Returns the parts of a line. Only known levels match, because the level becomes part of a topic name."""
    match = LINE.fullmatch(line.strip())
    if match is None:
        raise MalformedLineError(f"not a log line: {line[:80]!r}")
    return match.groupdict()


def topic_of(entry: dict[str, Any]) -> str:
    return f"logs-{entry['level'].lower()}"


def skip_malformed(_context: ErrorContext, error: BaseException) -> Literal["fail", "continue"]:
    return "continue" if isinstance(error, MalformedLineError) else "fail"


app = App(
    "log-routing",
    deserialization_exception_handler="continue",  # bytes that are not text
    processing_exception_handler=skip_malformed,
    errors_dead_letter_queue_topic_name="dead-lines",
)
lines = app.stream("log-lines", value=str).filter(lambda line: line is not None)
branches = lines.map_values(parse).split({"urgent": col("level").in_("ERROR", "FATAL")}, default="rest")
branches["urgent"].to("logs-high-priority")
branches["rest"].to(topic_of)

if __name__ == "__main__":
    app.run()
