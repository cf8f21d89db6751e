"""Converts Arrow batches of records to the columns that the engine takes."""

from __future__ import annotations

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


def finder(columns: Columns) -> Callable[[int], InputRecord]:
    """Finds a record by its offset, for error messages and dead letters."""

    def find(offset: int) -> InputRecord:
        row = columns.offsets.index(offset)
        headers = columns.headers[row] if isinstance(columns.headers, list) else ()
        return InputRecord(offset, columns.timestamps[row], columns.keys[row], columns.values[row], headers)

    return find
