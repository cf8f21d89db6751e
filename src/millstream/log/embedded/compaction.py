"""Compaction: keeping the last record of each key.

A partition is compacted from its start to the first record that an application may still read. Blocks that lose
records are rewritten, small ones together, each run of them in one transaction. Runs are processed from old to new. So
after a crash, no tombstone is gone while a record that it deletes still exists.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from millstream.core.durations import later
from millstream.core.failpoints import declare, reach
from millstream.errors import ConfigError
from millstream.log.api import Removed
from millstream.log.arrays import from_integers, null_mask, to_numbers
from millstream.log.blocks import SCHEMA, encode_batch
from millstream.log.embedded import applications
from millstream.log.embedded.database import Database
from millstream.log.embedded.records import BlockRow, delete, insert, load, offsets, rows
from millstream.log.embedded.topics import StoredTopic, find, head

BEFORE_SWAP = declare("log.compaction.before-swap")
AFTER_SWAP = declare("log.compaction.after-swap")
BEFORE_COMMIT = declare("log.compaction.before-commit")

# Blocks below the first size are merged with their neighbours, up to about the second.
_SMALL = 64 * 1024
_LARGE = 1024 * 1024
# The offsets of a block are stored relative to its base, in 32 bits.
_MAX_SPAN = 2**32 - 1

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class _Part(NamedTuple):
    """A block, a mask of the records to keep, and the time until which tombstones are kept."""

    row: BlockRow
    kept: Mask
    tombstones_until: int | None


def compact(database: Database, name: str, now: int) -> Removed:
    """Compacts a topic, partition by partition."""
    with database.read() as connection:
        topic = find(connection, name)
    if not topic.settings.compact:
        hint = "compaction deletes records: it needs cleanup.policy=compact"
        raise ConfigError(f"topic {name!r} is not compacted", hint=hint)
    records = size = 0
    for partition in range(topic.topic.partitions):
        with database.read() as connection:
            if find(connection, name).id != topic.id:
                break
            parts = _parts(connection, topic, partition, now)
        for run in _runs(parts):
            with database.write() as connection:
                saved = _swap(connection, topic, partition, run)
                reach(BEFORE_COMMIT)
            if saved is None:
                break
            records += sum(int((~part.kept).sum()) for part in run)
            size += saved
    return Removed(records, size)


def _end(connection: sqlite3.Connection, topic: StoredTopic, partition: int) -> int:
    """Returns the first offset that an application may still read, at most the partition's end."""
    end = head(connection, topic, partition).next
    return min(end, applications.floors(connection).get((topic.id, partition), end))


def _parts(connection: sqlite3.Connection, topic: StoredTopic, partition: int, now: int) -> list[_Part]:
    """Determines which records of each block are kept."""
    start = head(connection, topic, partition).start
    end = _end(connection, topic, partition)
    lag = topic.settings.min_compaction_lag_ms
    blocks: list[BlockRow] = []
    keys: list[pa.DictionaryArray] = []
    tombstones: list[Mask] = []
    for row in rows(connection, topic, partition, start, end):
        if row.next > end or (lag and row.max_timestamp > now - lag):
            break
        batch = load(connection, topic, partition, row)
        blocks.append(row)
        keys.append(batch.column("key").dictionary_encode())
        tombstones.append(null_mask(batch.column("value")))
    parts = []
    for row, last, dead in zip(blocks, _last_of_each_key(keys), tombstones, strict=True):
        until = row.tombstones_until
        kept = last & ~dead if until is not None and until <= now else last
        if until is None and (kept & dead).any():
            until = later(now, topic.settings.delete_retention_ms)
        parts.append(_Part(row, kept, until if (kept & dead).any() else None))
    return parts


def _last_of_each_key(keys: list[pa.DictionaryArray]) -> list[Mask]:
    """Returns, for each block, which of its records are the last ones of their keys among all blocks."""
    if not keys:
        return []
    unified = pa.chunked_array(keys).unify_dictionaries()
    indices = np.concatenate([to_numbers(chunk.indices) for chunk in unified.chunks])
    places = np.arange(len(indices))
    last = np.empty(len(unified.chunk(0).dictionary), np.int64)
    # Where an index occurs more than once, the last assignment remains.
    last[indices] = places
    edges = np.cumsum([len(chunk) for chunk in keys])[:-1]
    return list(np.split(last[indices] == places, edges))


def _runs(parts: list[_Part]) -> list[list[_Part]]:
    """Returns the blocks to rewrite, as runs of neighbours that become one block each."""
    runs: list[list[_Part]] = [[]]
    size = 0
    for part in parts:
        expected = int(part.row.size * part.kept.mean()) if part.row.count else 0
        untouched = part.kept.all() and part.row.size >= _SMALL and part.tombstones_until == part.row.tombstones_until
        full = runs[-1] and (size + expected > _LARGE or part.row.next - runs[-1][0].row.base > _MAX_SPAN)
        if untouched or full:
            runs.append([])
            size = 0
        if not untouched:
            runs[-1].append(part)
            size += expected
    return [run for run in runs if len(run) > 1 or (run and _changes(run[0]))]


def _changes(part: _Part) -> bool:
    return not part.kept.all() or part.tombstones_until != part.row.tombstones_until


def _swap(connection: sqlite3.Connection, topic: StoredTopic, partition: int, run: list[_Part]) -> int | None:
    """Replaces a run by one block. Returns the number of bytes saved, or None if the run has changed."""
    first, last = run[0].row, run[-1].row
    stored = list(rows(connection, topic, partition, first.base, last.next))
    if stored != [part.row for part in run] or last.next > _end(connection, topic, partition):
        return None
    batches = [
        load(connection, topic, partition, part.row).take(from_integers(np.flatnonzero(part.kept))) for part in run
    ]
    merged = pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches() or [batches[0]]
    assert len(merged) == 1, "a run is far too small for more"
    block = encode_batch(merged[0])
    places = np.concatenate([offsets(part.row)[part.kept] for part in run]) - first.base
    dense = len(places) == last.next - first.base
    until = [part.tombstones_until for part in run if part.tombstones_until is not None]
    row = BlockRow(
        base=first.base,
        next=last.next,
        count=block.count,
        min_timestamp=block.min_timestamp,
        max_timestamp=block.max_timestamp,
        tombstones_until=max(until, default=None),
        size=len(block.data),
        offsets=None if dense else places.astype("<u4").tobytes(),
    )
    reach(BEFORE_SWAP)
    delete(connection, topic, partition, stored)
    insert(connection, topic, partition, row, block.data)
    reach(AFTER_SWAP)
    return sum(part.row.size for part in run) - row.size
