"""Publishing a batch: all that it changes, in one transaction, once."""

from __future__ import annotations

import sqlite3

from millstream.errors import NonDeterministicError
from millstream.failpoints import declare, reach
from millstream.log.api import Fingerprints, Publication
from millstream.log.embedded import applications, groups
from millstream.log.embedded.positions import merge, resolve
from millstream.log.embedded.records import append_all
from millstream.views.tables import apply_changes

BEGIN = declare("log.publish.begin")
AFTER_APPENDS = declare("log.publish.after-appends")
AFTER_VIEWS = declare("log.publish.after-views")
AFTER_PROGRESS = declare("log.publish.after-progress")


def publish(connection: sqlite3.Connection, publication: Publication, now: int) -> bool:
    """Writes a batch, unless it is there already. Returns whether it was written."""
    reach(BEGIN)
    name = publication.application
    known = applications.check_epoch(connection, name, publication.epoch)
    if known.batch is not None and publication.batch <= known.batch:
        if publication.batch == known.batch:
            _compare(publication, known.fingerprints)
        return False
    append_all(connection, publication.appends, now)
    reach(AFTER_APPENDS)
    apply_changes(connection, name, publication.views)
    reach(AFTER_VIEWS)
    resolved = resolve(connection, publication.offsets)
    groups.commit(connection, name, resolved)
    known = applications.put_state(connection, known, publication.state)
    offsets, fingerprints = merge(known.offsets, resolved), dict(publication.fingerprints)
    applications.store(connection, known._replace(batch=publication.batch, fingerprints=fingerprints, offsets=offsets))
    reach(AFTER_PROGRESS)
    return True


def _compare(publication: Publication, before: Fingerprints) -> None:
    """Raises a `NonDeterministicError` if a batch that was published comes again with other results."""
    now = publication.fingerprints
    if differ := tuple(sorted(n for n in {*now, *before} if now.get(n) != before.get(n))):
        what = f"batch {publication.batch} of application {publication.application!r}"
        message = f"{what} was published before, and its replay gives other results in: {', '.join(differ)}"
        hint = "functions must give the same result for the same record: no clock, random numbers or outside data"
        raise NonDeterministicError(message, hint=hint, names=differ)
