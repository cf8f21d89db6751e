"""Converts Arrow batches of records to the columns that the engine takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import repeat

import pyarrow as pa

from millstream.engine import InputRecord
from millstream.engine.queues import Columns
from millstream.log.blocks import decode_headers


def columns_of(batch: pa.RecordBatch) -> Columns:
    """The columns of a batch, as Python objects."""
    headers = batch.column("headers")
    return Columns(
        batch.column("offset").to_pylist(),
        batch.column("timestamp").to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        repeat(()) if headers.null_count == len(headers) else [decode_headers(h) for h in headers.to_pylist()],
    )


def finder(*parts: Columns) -> Callable[[int], InputRecord]:
    """Finds a record of a partition by its offset, for error messages and dead letters."""

    def find(offset: int) -> InputRecord:
        # Offsets ascend, and a batch may have many dead letters.
        columns = next(part for part in parts if part.offsets and part.offsets[0] <= offset <= part.offsets[-1])
        row = bisect_left(columns.offsets, offset)
        headers = columns.headers[row] if isinstance(columns.headers, list) else ()
        return InputRecord(offset, columns.timestamps[row], columns.keys[row], columns.values[row], headers)

    return find
