"""The audit log: a line for each request that changes something, or was not allowed to."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request

from millstream.text.escaping import error_text, printable, shorten

_MOST_BYTES = 10_000_000
_MOST_FILES = 5
_MOST_CHARACTERS = 1000


def note(request: Request, **facts: Any) -> None:
    """Adds facts about a change to the line of its request in the audit log, such as the number of records written.

    Routes whose role is operator or admin have a line in any case. A route of viewers has one if it calls this
    function: a request that only reads is not noted, even if its method is POST. No keys and no values are noted.

    Args:
        request: The request.
        facts: Numbers and texts.
    """
    request.state.audit = {**noted(request.scope["state"]), **facts}


def noted(state: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a request, by its state."""
    facts: dict[str, Any] = state.get("audit", {})
    return facts


class Audit:
    """Appends lines to ``access/audit.log`` in the data directory. Full files are kept as ``audit.log.1`` and so on."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "access" / "audit.log"
        self._lock = threading.Lock()

    def write(self, **facts: Any) -> None:
        """Writes a line. Control characters are escaped, so that a name cannot begin a line of its own."""
        line = json.dumps({"time": int(time.time() * 1000), **_safe(facts)}) + "\n"
        with self._lock:
            try:
                self._append(line)
            except OSError as error:  # the change has been made: it is noted where an operator sees it
                print(f"millstream: the audit log: {error_text(error)}: {line}", end="", file=sys.stderr, flush=True)  # noqa: T201

    def _append(self, line: str) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(line)
            size = file.tell()
        if size > _MOST_BYTES:
            for number in range(_MOST_FILES - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    self._numbered(number).replace(self._numbered(number + 1))
            self._file.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")


def _safe(value: Any) -> Any:
    """A value whose texts are printable and not long."""
    if isinstance(value, str):
        return printable(shorten(value, _MOST_CHARACTERS))
    if isinstance(value, Mapping):
        return {_safe(str(name)): _safe(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_safe(part) for part in value[:100]]
    return value
