"""The audit log: a line for each request that may change something."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

_MOST_BYTES = 10_000_000


class Audit:
    """Appends lines to ``access/audit.log`` in the data directory. A full file is kept once, as ``audit.log.1``."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "access" / "audit.log"
        self._lock = threading.Lock()

    def write(self, **facts: Any) -> None:
        """Writes a line. JSON escapes control characters, so a name cannot begin a line of its own."""
        line = json.dumps({"time": int(time.time() * 1000), **facts}) + "\n"
        with self._lock, contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(line)
                size = file.tell()
            if size > _MOST_BYTES:
                self._file.replace(self._file.with_name("audit.log.1"))
