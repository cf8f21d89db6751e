"""Stores whose rows are in pages of a flat remote map, and in memory as far as there is room.

`PagedState` has the stores of a task. Each is the store in memory of its kind, which can also take in and give up the
rows of a page, and a `Pager`, which knows its pages; the `Residence` of all pages knows which were used and which need
the log. `format` has the bytes.
"""

from __future__ import annotations

from millstream.state.paged.format import MANIFEST_KEY
from millstream.state.paged.state import PagedState, StoreSize, Writes

__all__ = ["MANIFEST_KEY", "PagedState", "StoreSize", "Writes"]
