"""The results of cases: lines of JSON for machines, a table for people."""

from __future__ import annotations

from collections import Counter
from typing import Any

from millstream.core.frozen import Frozen
from millstream.text.escaping import json_text, printable

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
_MOST = 2000


class Result(Frozen):
    """The result of a case; ``message_match`` is None for positive cases."""

    file: str
    case: str
    outcome: str
    message: str = ""
    seconds: float = 0.0
    message_match: bool | None = None

    def json_line(self) -> str:
        """The line of the protocol."""
        data: dict[str, Any] = {
            "file": self.file,
            "case": self.case,
            "outcome": self.outcome,
            "message": one_line(self.message),
            "seconds": round(self.seconds, 4),
        }
        if self.message_match is not None:
            data["message_match"] = self.message_match
        return json_text(data)

    def text(self) -> str:
        """The line for people: only cases that did not pass have a reason."""
        line = f"{self.outcome:8} {printable(self.case)}"
        return line if self.outcome == PASSED else f"{line}\n         {printable(one_line(self.message))}"


def one_line(text: str) -> str:
    r"""Returns a message in one line of 2000 bytes at most.

    >>> one_line("a\n   b")
    'a b'
    """
    joined = " ".join(text.split())
    data = joined.encode(errors="backslashreplace")
    return joined if len(data) <= _MOST else data[:_MOST].decode(errors="ignore")


def summary(results: list[Result]) -> list[list[Any]]:
    """Returns the rows of the table: for each file the number of cases of each outcome, and the seconds."""
    rows = []
    files = dict.fromkeys(result.file for result in results)
    for file in files:
        own = [result for result in results if result.file == file]
        counts = Counter(result.outcome for result in own)
        outcomes = [counts[outcome] for outcome in (PASSED, FAILED, ERROR, SKIPPED)]
        rows.append([file, *outcomes, round(sum(result.seconds for result in own), 2)])
    return rows


def exit_code(results: list[Result]) -> int:
    """Returns 0 if all cases passed, 1 if some did not."""
    return 0 if all(result.outcome == PASSED for result in results) else 1
