"""Applications: which instance may write, what it remembers, and which records it still needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from millstream.core.failpoints import declare, reach
from millstream.core.names import check_name
from millstream.errors import CorruptLogError, FencedError, OffsetOutOfRangeError
from millstream.log.api import Fingerprints, Offsets, Published
from millstream.log.embedded import groups
from millstream.log.embedded.checksums import checksum, verify
from millstream.log.embedded.counters import Counters, add, check
from millstream.log.embedded.positions import Positions, decode as decode_positions, merge, named, resolve
from millstream.log.embedded.topics import head
from millstream.views.tables import drop_application

ACQUIRE_BEFORE_COMMIT = declare("log.acquire.before-commit")
HOLD_BEFORE_COMMIT = declare("log.hold.before-commit")
STATE_BEFORE_COMMIT = declare("log.state.before-commit")

_encode = msgspec.msgpack.Encoder().encode
_decode_fingerprints = msgspec.msgpack.Decoder(dict[str, tuple[int, bytes]]).decode
_decode_checksums = msgspec.msgpack.Decoder(dict[str, int]).decode


class Application(NamedTuple):
    """What the database knows of an application.

    Attributes:
        name: Its name.
        epoch: The epoch of the instance that may write, 0 if there was none yet.
        batch: The last batch that was published, if any.
        fingerprints: Those of that batch.
        offsets: How far it has read.
        holds: The first records that it may read again.
        state: The checksums of what it remembers.
    """

    name: str
    epoch: int
    batch: int | None
    fingerprints: Fingerprints
    offsets: Positions
    holds: Positions
    state: Mapping[str, int]


def find(connection: sqlite3.Connection, name: str) -> Application | None:
    """Returns an application, if it is known."""
    row = connection.execute("SELECT * FROM applications WHERE name = ?", (name,)).fetchone()
    if row is None:
        check(connection, "applications", without=name)
        return None
    return _read(row)


def _find_all(connection: sqlite3.Connection) -> Iterator[Application]:
    check(connection, "applications")
    return map(_read, connection.execute("SELECT * FROM applications"))


def _read(row: tuple[str, int, int | None, bytes, bytes, bytes, bytes, int]) -> Application:
    verify(f"application {row[0]!r}", row[-1], *row[:-1])
    name, epoch, batch, fingerprints, offsets, holds, state, _ = row
    positions = decode_positions(offsets), decode_positions(holds)
    return Application(name, epoch, batch, _decode_fingerprints(fingerprints), *positions, _decode_checksums(state))


def store(connection: sqlite3.Connection, application: Application) -> None:
    """Writes what is known of an application that was there before."""
    row = (*application[:3], *map(_encode, application[3:]))
    connection.execute("REPLACE INTO applications VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def _find_or_create(connection: sqlite3.Connection, name: str) -> Application:
    check_name(name, "application")
    known = find(connection, name)
    if known is None:
        add(connection, Counters(applications=1))
    return known or Application(name, 0, None, {}, {}, {}, {})


def acquire(connection: sqlite3.Connection, name: str) -> int:
    """Returns a new epoch for an application.

    All applications draw from one counter that never goes back, so an instance of an application that was deleted and
    made again does not pass for one of the new.
    """
    known = _find_or_create(connection, name)
    epoch = add(connection, Counters(epoch=1)).epoch
    store(connection, known._replace(epoch=epoch))
    reach(ACQUIRE_BEFORE_COMMIT)
    return epoch


def check_epoch(connection: sqlite3.Connection, name: str, epoch: int) -> Application:
    """Returns the application if the epoch is its current one, else raises a `FencedError`."""
    known = find(connection, name)
    if known is None or not known.epoch:
        message = f"application {name!r} was deleted, or no instance has ever acquired it"
        raise FencedError(message, hint="start it again")
    if known.epoch != epoch:
        message = f"another instance of application {name!r} has taken over"
        hint = f"an application has one instance; this one has epoch {epoch}, the other {known.epoch}"
        raise FencedError(message, hint=hint)
    return known


def published(connection: sqlite3.Connection, name: str) -> Published | None:
    """Returns the last batch that an application published."""
    known = find(connection, name)
    if known is None or known.batch is None:
        return None
    return Published(known.batch, known.fingerprints, named(connection, known.offsets))


def state(connection: sqlite3.Connection, name: str) -> dict[str, bytes]:
    """Returns what an application remembers."""
    known = find(connection, name)
    statement = "SELECT name, data FROM application_state WHERE application = ? ORDER BY name"
    found: dict[str, bytes] = dict(connection.execute(statement, (name,)))
    if {key: checksum(key, data) for key, data in found.items()} != (known.state if known else {}):
        message = f"what application {name!r} remembers is damaged"
        raise CorruptLogError(message, hint="restore the log from a copy")
    return found


def put_state(connection: sqlite3.Connection, known: Application, entries: Mapping[str, bytes]) -> Application:
    """Writes what an application remembers, and returns the application as it must be stored then."""
    rows = [(known.name, key, data) for key, data in entries.items()]
    connection.executemany("REPLACE INTO application_state VALUES (?, ?, ?)", rows)
    reach(STATE_BEFORE_COMMIT)
    added = {key: checksum(key, data) for key, data in entries.items()}
    return known._replace(state={**known.state, **added})


def hold(connection: sqlite3.Connection, name: str, offsets: Offsets, *, also: bool) -> None:
    """Writes which records an application may still read again."""
    known = _find_or_create(connection, name)
    resolved = resolve(connection, offsets)
    for topic, partition, offset in resolved:
        start = head(connection, topic, partition).start
        if offset < start:
            message = f"topic {topic.name!r}, partition {partition}: the records before offset {start} are deleted"
            raise OffsetOutOfRangeError(message, hint=f"application {name!r} asks to keep those from {offset} on")
    store(connection, known._replace(holds=merge(known.holds if also else {}, resolved)))
    reach(HOLD_BEFORE_COMMIT)


def release(connection: sqlite3.Connection, name: str) -> None:
    """Forgets which records an application may still read again."""
    known = find(connection, name)
    if known is not None:
        store(connection, known._replace(holds={}))


def floors(connection: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Returns, by topic and partition, the first offset that some application may still read."""
    result: dict[tuple[int, int], int] = {}
    for known in _find_all(connection):
        for positions in (known.offsets, known.holds):
            for topic, partitions in positions.items():
                for partition, offset in partitions.items():
                    result[topic, partition] = min(offset, result.get((topic, partition), offset))
    return result


def delete(connection: sqlite3.Connection, name: str) -> None:
    """Forgets an application."""
    if connection.execute("DELETE FROM applications WHERE name = ?", (name,)).rowcount:
        add(connection, Counters(applications=-1))
    connection.execute("DELETE FROM application_state WHERE application = ?", (name,))
    groups.delete(connection, name, missing_ok=True)
    drop_application(connection, name)
