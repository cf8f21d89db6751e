"""The base classes of the stores in memory: recording and restoring of changes, store time and expiry."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any

from millstream.state.codec import FOREVER, Codec, expiry_width, segment_interval
from millstream.state.loading import RowLoader
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec

NEVER = 1 << 64
"""A time later than all others; its negative is earlier than all others."""


class MemoryStore:
    """A store in memory.

    Attributes:
        spec: The specification of the store.
        loader: Loads rows that are not in memory; None if all rows are.
    """

    __slots__ = ("_codec", "_logged", "loader", "spec")

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        self.spec = spec
        self.loader: RowLoader | None = None
        self._codec = codec
        self._logged = spec.logged

    @property
    def time(self) -> int | None:
        return None

    def _set_time(self, time: int) -> None:
        """Sets the time of the store, if it has one."""

    def _record_changes(self, on: bool) -> None:
        """Switches the recording of changes on or off."""
        raise NotImplementedError

    def changes(self) -> list[ChangelogRecord]:
        return self.changed_columns().records()

    def changed_columns(self) -> Changes:
        raise NotImplementedError

    def _apply(self, record: ChangelogRecord) -> None:
        """Applies a changelog record to the rows."""
        raise NotImplementedError

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        self._record_changes(False)
        try:
            for record in records:
                self._apply(record)
        finally:
            self._record_changes(self._logged)


class TimedStore(MemoryStore):
    """A store whose rows expire as its time advances: a window, session or versioned store.

    A row is visible while its time is greater than ``_horizon``, and is kept while its time is greater than ``_floor``.
    The two differ in a held store only, which keeps rows until they are released. Expired rows are dropped each time
    that the horizon has advanced by an eighth of the retention, so reads compare with the horizon.
    """

    __slots__ = (
        "_expire_at", "_floor", "_held", "_horizon", "_lag", "_release_at", "_released", "_rows", "_segment", "_time",
        "_width",
    )  # fmt: skip

    _rows: dict[Any, Any]

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        retention = FOREVER if spec.retention_ms is None else spec.retention_ms
        self._rows = {}
        self._held = spec.held
        self._lag = retention + 1 if spec.held and spec.kind == "window" else retention
        self._width = expiry_width(retention)
        self._segment = segment_interval(retention)
        self._released = self._release_at = -NEVER
        self._time = -1
        self._horizon = horizon = -1 - self._lag
        self._floor = -NEVER if spec.held else horizon
        self._expire_at = NEVER if spec.held else horizon + self._width

    def __len__(self) -> int:
        entries: Iterable[Sized] = self._rows.values()
        rows = sum(map(len, entries))
        return rows if self.loader is None else rows + self.loader.rows

    @property
    def time(self) -> int:
        return self._time

    @time.setter
    def time(self, time: int) -> None:
        self._set_time(time)

    def _set_time(self, time: int) -> None:
        self._time = time
        self._horizon = self._floor = horizon = time - self._lag
        if horizon >= self._expire_at:
            self._expire(horizon)
            self._expire_at = horizon + self._width
        elif self._held:
            self._floor = min(horizon, self._released)

    def _expire(self, limit: int) -> None:
        """Drops the rows up to a time."""
        raise NotImplementedError

    def release(self, time: int, /) -> None:
        if not self._held or time <= self._released:
            return
        self._released = time
        self._floor = floor = min(self._horizon, time)
        if floor >= self._release_at:
            self._expire(floor)
            self._release_at = floor + self._width
