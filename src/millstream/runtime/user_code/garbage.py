"""Garbage collection in processes that run tasks."""

from __future__ import annotations

import gc

_THRESHOLDS = (100_000, 20, 10)


def collect_rarely() -> None:
    """Has the collector run rarely in this process, which runs tasks and nothing else.

    A batch makes many objects, of which nearly all live on or have no cycles. With the default thresholds the collector
    would take up to a third of the time of a batch.
    """
    gc.set_threshold(*_THRESHOLDS)
