"""Reports for tests of what the server makes of them: those of a real run, with other times and numbers."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

from millstream.runtime.host.process_identity import owner_record
from millstream.runtime.observe.report import DIRECTORY, REPORT
from millstream.serve.data import ServedData
from millstream.serve.observe.observer import Observer
from millstream.serve.options import ServeOptions

START = 1_700_000_000_000
"""The time at which the run of the reports began."""


class Reported:
    """The report of an application `shop` of this process. A test changes it, and writes it again.

    Attributes:
        content: The report.
    """

    def __init__(self, data: Path, original: dict[str, Any]) -> None:
        self._file = data / "applications" / "shop" / DIRECTORY / REPORT
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._versions = 0
        own = {"pid": os.getpid(), "owner": owner_record(os.getpid()), "started": START, "interval_ms": 10**15}
        self.content = {**copy.deepcopy(original), **own, "state": "RUNNING"}

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the report."""
        metrics: dict[str, Any] = self.content["metrics"]
        return metrics

    def write(self, time: int, **changes: Any) -> None:
        """Writes the report.

        Args:
            time: Its time in milliseconds, from `START` on.
            changes: Other fields.
        """
        self.content |= {"time": START + time, **changes}
        self._versions += 1
        new = self._file.with_suffix(f".{self._versions}")  # another file, so that the reader sees that it is new
        new.write_text(json.dumps(self.content))
        new.replace(self._file)

    def drop(self, reason: str, count: int, operator: str = "orders-source") -> None:
        """Changes how many records an operator has dropped for a reason."""
        self.metrics["operators"].setdefault(operator, {"dropped": {}})["dropped"][reason] = count


def original_report(shop_data: Path) -> dict[str, Any]:
    """The last report of the application `shop`."""
    report: dict[str, Any] = json.loads((shop_data / "applications" / "shop" / DIRECTORY / REPORT).read_bytes())
    return report


def observer_of(data: Path, alerts: Path | None = None, interval_ms: int = 5000) -> Observer:
    """An observer of a data directory. A test calls `Observer.observe` in the place of its thread."""
    return Observer(ServedData(ServeOptions(data=str(data), alerts=alerts)), interval_ms)
