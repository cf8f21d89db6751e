"""Scopes of applications: their epochs, published batches, recorded state and holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from millstream.core.failpoints import declare, reach
from millstream.core.names import check_name
from millstream.errors import CorruptLogError, FencedError, OffsetOutOfRangeError
from millstream.log.api import Fingerprints, Offsets, Published, Scope
from millstream.log.embedded import groups
from millstream.log.embedded.checksums import checksum, verify
from millstream.log.embedded.counters import Counters, add, check
from millstream.log.embedded.positions import Positions, decode as decode_positions, merge, named, resolve
from millstream.log.embedded.topics import head
from millstream.views.tables import drop_application

ACQUIRE_BEFORE_COMMIT = declare("log.acquire.before-commit")
HOLD_BEFORE_COMMIT = declare("log.hold.before-commit")
STATE_BEFORE_COMMIT = declare("log.state.before-commit")

_OF_THE_APPLICATION = ""
"""The worker column of an application's own scope. A worker's name is not empty."""

_encode = msgspec.msgpack.Encoder().encode
_decode_fingerprints = msgspec.msgpack.Decoder(dict[str, tuple[int, bytes]]).decode
_decode_checksums = msgspec.msgpack.Decoder(dict[str, int]).decode


class StoredScope(NamedTuple):
    """The row of a scope.

    Attributes:
        application: The name of the application.
        worker: The name of the worker, or an empty string.
        epoch: The epoch of the instance that can write, 0 before the first one.
        batch: The last published batch, if any.
        fingerprints: The fingerprints of that batch.
        offsets: The input offsets of all published batches.
        holds: The offsets from which on the application may read records again.
        state: The checksums of the recorded state, by name.
    """

    application: str
    worker: str
    epoch: int
    batch: int | None
    fingerprints: Fingerprints
    offsets: Positions
    holds: Positions
    state: Mapping[str, int]


def find(connection: sqlite3.Connection, scope: Scope) -> StoredScope | None:
    """Returns the row of a scope, if there is one."""
    statement = "SELECT * FROM application_scopes WHERE application = ? AND worker = ?"
    row = connection.execute(statement, _key(scope)).fetchone()
    if row is None:
        check(connection, "application_scopes", *_key(scope))
        return None
    return _read(row)


def _key(scope: Scope) -> tuple[str, str]:
    return scope.application, scope.worker or _OF_THE_APPLICATION


def _find_all(connection: sqlite3.Connection) -> Iterator[StoredScope]:
    check(connection, "application_scopes")
    return map(_read, connection.execute("SELECT * FROM application_scopes"))


def _read(row: tuple[str, str, int, int | None, bytes, bytes, bytes, bytes, int]) -> StoredScope:
    verify(f"application {row[0]!r}", row[-1], *row[:-1])
    application, worker, epoch, batch, fingerprints, offsets, holds, state, _ = row
    return StoredScope(
        application,
        worker,
        epoch,
        batch,
        _decode_fingerprints(fingerprints),
        decode_positions(offsets),
        decode_positions(holds),
        _decode_checksums(state),
    )


def store(connection: sqlite3.Connection, stored: StoredScope) -> None:
    """Writes the row of a scope that `find` has returned."""
    row = (*stored[:4], *map(_encode, stored[4:]))
    statement = "REPLACE INTO application_scopes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(statement, (*row, checksum(*row)))


def _find_or_create(connection: sqlite3.Connection, scope: Scope) -> StoredScope:
    check_name(scope.application, "application")
    if scope.worker is not None:
        check_name(scope.worker, "worker")
    stored = find(connection, scope)
    if stored is None:
        add(connection, Counters(application_scopes=1))
    return stored or StoredScope(*_key(scope), 0, None, {}, {}, {}, {})


def acquire(connection: sqlite3.Connection, scope: Scope, application_epoch: int | None) -> int:
    """Returns a new epoch for a scope.

    All scopes draw from one counter that never decreases. So an instance of an application that was deleted and created
    again stays fenced, and an application that was acquired after its worker has a greater epoch than the worker.
    """
    if application_epoch is not None and _epoch(connection, Scope(scope.application)) != application_epoch:
        raise _superseded(scope)
    stored = _find_or_create(connection, scope)
    epoch = add(connection, Counters(epoch=1)).epoch
    store(connection, stored._replace(epoch=epoch))
    reach(ACQUIRE_BEFORE_COMMIT)
    return epoch


def check_epoch(connection: sqlite3.Connection, scope: Scope, epoch: int) -> StoredScope:
    """Returns the row of a scope if the epoch is its current one, else raises a `FencedError`."""
    stored = find(connection, scope)
    if stored is None or not stored.epoch:
        message = f"{scope} was deleted, or no instance has ever acquired it"
        raise FencedError(message, hint="start it again")
    if stored.epoch != epoch:
        message = f"another instance of {scope} has taken over"
        hint = f"one instance can write; this one has epoch {epoch}, the other {stored.epoch}"
        raise FencedError(message, hint=hint)
    if scope.worker is not None and _epoch(connection, Scope(scope.application)) > epoch:
        raise _superseded(scope)
    return stored


def _epoch(connection: sqlite3.Connection, scope: Scope) -> int:
    stored = find(connection, scope)
    return 0 if stored is None else stored.epoch


def _superseded(scope: Scope) -> FencedError:
    return FencedError(
        f"application {scope.application!r} was acquired by another instance, which fences its workers",
        hint=f"{scope} must be started by that instance",
    )


def published(connection: sqlite3.Connection, scope: Scope) -> Published | None:
    """Returns the last batch that was published in a scope."""
    stored = find(connection, scope)
    if stored is None or stored.batch is None:
        return None
    return Published(stored.batch, stored.fingerprints, named(connection, stored.offsets))


def state(connection: sqlite3.Connection, scope: Scope) -> dict[str, bytes]:
    """Returns the recorded state of a scope."""
    stored = find(connection, scope)
    statement = "SELECT name, data FROM application_state WHERE application = ? AND worker = ? ORDER BY name"
    entries: dict[str, bytes] = dict(connection.execute(statement, _key(scope)))
    if {key: checksum(key, data) for key, data in entries.items()} != (stored.state if stored else {}):
        raise CorruptLogError(f"the recorded state of {scope} is damaged", hint="restore the log from a copy")
    return entries


def put_state(connection: sqlite3.Connection, stored: StoredScope, entries: Mapping[str, bytes]) -> StoredScope:
    """Writes entries of the recorded state, and returns the row of the scope to be stored after that."""
    rows = [(stored.application, stored.worker, key, data) for key, data in entries.items()]
    connection.executemany("REPLACE INTO application_state VALUES (?, ?, ?, ?)", rows)
    reach(STATE_BEFORE_COMMIT)
    added = {key: checksum(key, data) for key, data in entries.items()}
    return stored._replace(state={**stored.state, **added})


def hold(connection: sqlite3.Connection, application: str, offsets: Offsets, *, also: bool) -> None:
    """Writes the holds of an application."""
    stored = _find_or_create(connection, Scope(application))
    resolved = resolve(connection, offsets)
    for topic, partition, offset in resolved:
        start = head(connection, topic, partition).start
        if offset < start:
            message = f"topic {topic.name!r}, partition {partition}: the records before offset {start} are deleted"
            hint = f"application {application!r} requests to keep those from {offset} on"
            raise OffsetOutOfRangeError(message, hint=hint)
    store(connection, stored._replace(holds=merge(stored.holds if also else {}, resolved)))
    reach(HOLD_BEFORE_COMMIT)


def release(connection: sqlite3.Connection, application: str) -> None:
    """Deletes the holds of an application."""
    stored = find(connection, Scope(application))
    if stored is not None:
        store(connection, stored._replace(holds={}))


def floors(connection: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Returns, by topic and partition, the first offset that an application may still read.

    A partition may move from one worker of an application to another. Its reading position is the greatest of theirs.
    """
    read: dict[tuple[int, int], dict[str, int]] = {}
    result: dict[tuple[int, int], int] = {}
    for stored in _find_all(connection):
        for place, offset in _flat(stored.offsets):
            positions = read.setdefault(place, {})
            positions[stored.application] = max(offset, positions.get(stored.application, offset))
        for place, offset in _flat(stored.holds):
            result[place] = min(offset, result.get(place, offset))
    for place, positions in read.items():
        least = min(positions.values())
        result[place] = min(least, result.get(place, least))
    return result


def _flat(positions: Positions) -> Iterator[tuple[tuple[int, int], int]]:
    for topic, partitions in positions.items():
        for partition, offset in partitions.items():
            yield (topic, partition), offset


def delete(connection: sqlite3.Connection, application: str) -> None:
    """Deletes all scopes of an application, its group and its views."""
    deleted = connection.execute("DELETE FROM application_scopes WHERE application = ?", (application,)).rowcount
    if deleted:
        add(connection, Counters(application_scopes=-deleted))
    connection.execute("DELETE FROM application_state WHERE application = ?", (application,))
    groups.delete(connection, application, missing_ok=True)
    drop_application(connection, application)
