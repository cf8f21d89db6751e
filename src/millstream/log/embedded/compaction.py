"""Compaction: keeping the last record of each key.

A partition is looked at from its start to the first record that must stay as it is. Blocks that lose records are
written anew, small ones together, each run of them in a transaction of its own. The runs go from old to new, so
whatever a crash leaves behind, no tombstone is gone while a record that it deletes is still there.
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

# Blocks below this size are written together with their neighbours, up to about the other.
_SMALL = 64 * 1024
_LARGE = 1024 * 1024
# The offsets of a block count from its base in 32 bits.
_MAX_SPAN = 2**32 - 1

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class _Part(NamedTuple):
    """A block, which of its records stay, and until when its tombstones do."""

    row: BlockRow
    kept: Mask
    tombstones_until: int | None


def compact(database: Database, name: str, now: int) -> Removed:
    """Compacts a topic, partition by partition."""
    with database.read() as connection:
        topic = find(connection, name)
    if not topic.settings.compact:
        hint = "compaction deletes records: it needs cleanup.policy=compact"
        raise ConfigError(f"topic {name!r} is not a compacted one", hint=hint)
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
    """Looks at the blocks that can be compacted and decides what stays of each."""
    start = head(connection, topic, partition).start
    end = _end(connection, topic, partition)
    lag = topic.settings.min_compaction_lag_ms
    known: list[BlockRow] = []
    keys: list[pa.DictionaryArray] = []
    tombstones: list[Mask] = []
    for row in rows(connection, topic, partition, start, end):
        if row.next > end or (lag and row.max_timestamp > now - lag):
            break
        batch = load(connection, topic, partition, row)
        known.append(row)
        keys.append(batch.column("key").dictionary_encode())
        tombstones.append(null_mask(batch.column("value")))
    parts = []
    for row, last, dead in zip(known, _last_of_each_key(keys), tombstones, strict=True):
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
    # Where an index comes more than once, the last assignment stands.
    last[indices] = places
    edges = np.cumsum([len(chunk) for chunk in keys])[:-1]
    return list(np.split(last[indices] == places, edges))


def _runs(parts: list[_Part]) -> list[list[_Part]]:
    """Returns the blocks that are to be written anew, as runs of neighbours that become one block each."""
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
    """Puts one block in the place of a run. Returns how many bytes that saves, or None if the run has changed."""
    first, last = run[0].row, run[-1].row
    known = list(rows(connection, topic, partition, first.base, last.next))
    if known != [part.row for part in run] or last.next > _end(connection, topic, partition):
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
    delete(connection, topic, partition, known)
    insert(connection, topic, partition, row, block.data)
    reach(AFTER_SWAP)
    return sum(part.row.size for part in run) - row.size
