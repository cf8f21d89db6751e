"""Runs a source as the runtime does: it records batches with their positions, stops at any point, and goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any

import msgspec

from millstream.connect.api import Source, SourceRecord


class Recording:
    """The `SourceContext` of a source, and what it has appended.

    Attributes:
        records: The records that are recorded, in order.
        committed: The position that is recorded with them.
        gauges: The metrics of the source.
        reports: The progress that it has reported.
    """

    application = "shop"
    connector = "capture"
    commands: Collection[Any] = ()

    def __init__(self) -> None:
        self.records: list[SourceRecord] = []
        self.committed: Any = None
        self.gauges: dict[str, float] = {}
        self.reports: list[str] = []
        self.stopping = False

    def wait(self, seconds: float) -> bool:
        time.sleep(min(seconds, 0.005))
        return self.stopping

    def gauge(self, name: str, value: float) -> None:
        self.gauges[name] = value

    def report(self, message: str) -> None:
        self.reports.append(message)

    def warn(self, message: str) -> None:
        self.reports.append(message)

    def run(
        self,
        source: Source,
        split: str = "0",
        *,
        until: Callable[[], bool] | None = None,
        draw: random.Random | None = None,
    ) -> list[SourceRecord]:
        """Reads until the source has nothing more to read, and the condition holds.

        Args:
            source: The source.
            split: The split.
            until: The condition.
            draw: Chooses where the source is thrown away, with the batches that are not recorded yet.

        Returns:
            The records of this call.
        """
        first = len(self.records)
        while not self._read(source, split, until, draw):
            pass
        return self.records[first:]

    def _read(self, source: Source, split: str, until: Callable[[], bool] | None, draw: random.Random | None) -> bool:
        with closing(source.read(split, self.committed, self)) as batches:  # type: ignore[type-var]
            for batch in batches:
                if draw is not None and draw.random() < 0.2:
                    return False
                if batch is not None:
                    self.records.extend(batch.records)
                    # A position is recorded as JSON.
                    self.committed = msgspec.json.decode(msgspec.json.encode(batch.position))
                elif until is None or until():
                    return True
        return True

    def values(self) -> list[Any]:
        """The values of all records."""
        return [record.value for record in self.records]
