"""Stores whose rows are in pages of a flat remote map, with a page cache in memory.

The stores of a task are a `PagedState`. Each of them is the store in memory of its kind, extended by the methods that
load and evict the rows of a page (`PagedStore`), and a `Pager`, which manages its pages. The `PageCache` is shared by
all stores of the task. `format` defines the bytes in the map.

| term | meaning |
| --- | --- |
| page | the rows of one hash bucket of a time segment, under one key of the map |
| time segment | the pages of a time range of a store; a store without retention has one |
| log segment | the changes of all stores in one commit, under one sequence number |
| dirty page | a page with changes that are only in the log |
| write back | to write a dirty page to the map, so that it no longer needs the log |
| overlay | the logged changes of a page that is not in memory |
| manifest | the stores, their time segments, and the log segments that are needed |
"""

from __future__ import annotations

from millstream.state.paged.checkpoint import Checkpoint, CheckpointedState
from millstream.state.paged.format import MANIFEST_KEY
from millstream.state.paged.sizes import StoreSize
from millstream.state.paged.state import PagedState, Writes, kind_of

__all__ = ["MANIFEST_KEY", "Checkpoint", "CheckpointedState", "PagedState", "StoreSize", "Writes", "kind_of"]
