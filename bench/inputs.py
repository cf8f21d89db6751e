"""Records for the benchmarks of the runtime, made by column, because millions of them are needed: the same for both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.core.partitioning_arrow import partitions_for
from millstream.log import Append, Log
from millstream.log.blocks import encode

_BLOCK = 16_384
_AT_ONCE = 2_000_000
_PER_FILE = 20_000

Numbers = Any
"""A NumPy array of whole numbers."""


class Records(NamedTuple):
    """Records by column: numbers of keys, and timestamps in milliseconds."""

    keys: Numbers
    timestamps: Numbers

    def part(self, begin: int, count: int) -> Records:
        """Some of them, from a place on."""
        return Records(self.keys[begin : begin + count], self.timestamps[begin : begin + count])


def uniform(count: int, keys: int, *, seed: int = 1, start: int = 0) -> Records:
    """Records with keys drawn evenly, one a millisecond."""
    rng = np.random.default_rng(seed)
    return Records(rng.integers(0, keys, count), np.arange(start, start + count, dtype=np.int64))


def each_once(keys: int, *, step: int = 0) -> Records:
    """One record of each key: all at the beginning of time, or so many milliseconds apart."""
    return Records(np.random.default_rng(2).permutation(keys), np.arange(keys, dtype=np.int64) * step)


def windows(keys: int, count: int, size_ms: int, *, times: int = 2) -> Records:
    """Every key several times in each of some windows, in any order."""
    rng = np.random.default_rng(3)
    each = keys * times
    drawn = [np.concatenate([rng.permutation(keys) for _ in range(times)]) for _ in range(count)]
    within = np.linspace(0, size_ms - 1, each).astype(np.int64)
    return Records(np.concatenate(drawn), np.concatenate([window * size_ms + within for window in range(count)]))


def key_bytes(keys: Numbers) -> pa.Array:
    """The keys as they are in a topic: text."""
    return pc.cast(_key_text(keys), pa.binary())


def _key_text(keys: Numbers) -> pa.Array:
    return pc.binary_join_element_wise("key-", pc.utf8_lpad(pc.cast(pa.array(keys), pa.string()), 8, "0"), "")


def long_bytes(numbers: Numbers) -> pa.Array:
    """Whole numbers as the serde of `int` writes them."""
    data = np.asarray(numbers).astype(">i8").tobytes()
    edges = np.arange(0, len(data) + 8, 8, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(data) // 8, [None, pa.py_buffer(edges), pa.py_buffer(data)])


def _noise(count: int, size: int) -> pa.Array:
    edges = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(os.urandom(count * size))]
    )


def preload(log: Log, topic: str, records: Records, partitions: int, *, noise: int = 0) -> None:
    """Writes records to a topic; the value is the timestamp, or so many bytes of noise, which do not compress."""
    log.create_topic(topic, partitions, exist_ok=True)
    for begin in range(0, len(records.keys), _AT_ONCE):
        part = records.part(begin, _AT_ONCE)
        keys = key_bytes(part.keys)
        numbers = partitions_for(keys, partitions)
        appends = []
        for partition in range(partitions):
            places = np.flatnonzero(numbers == partition)
            for first in range(0, len(places), _BLOCK):
                chosen = places[first : first + _BLOCK]
                times = part.timestamps[chosen]
                values = _noise(len(chosen), noise) if noise else long_bytes(times)
                block = encode(pa.array(times), keys.take(pa.array(chosen)), values)
                appends.append(Append(topic, partition, block))
        log.append(appends)


def write_files(directory: Path, records: Records, *, start: int = 0) -> int:
    """Writes the same records as Parquet files for Spark; returns how many records a file has."""
    directory.mkdir(parents=True, exist_ok=True)
    for begin in range(0, len(records.keys), _PER_FILE):
        part = records.part(begin, _PER_FILE)
        table = pa.table(
            {
                "key": _key_text(part.keys),
                "value": pa.array(part.timestamps),
                "time": pa.array(part.timestamps).cast(pa.timestamp("ms", tz="UTC")),
            }
        )
        # The file source takes files by age, then by name, and knows only whole milliseconds.
        path = directory / f"{start + begin:012d}.parquet"
        pq.write_table(table, directory / f".{path.name}", compression="lz4")
        (directory / f".{path.name}").replace(path)
    return _PER_FILE
