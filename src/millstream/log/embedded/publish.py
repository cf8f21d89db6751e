"""Publishing a batch: all its changes in one transaction, once."""

from __future__ import annotations

import sqlite3

from millstream.core.failpoints import declare, reach
from millstream.log.api import Publication
from millstream.log.embedded import applications, groups
from millstream.log.embedded.positions import merge, resolve
from millstream.log.embedded.records import append_all
from millstream.log.replays import check_replay
from millstream.views.tables import apply_changes

BEGIN = declare("log.publish.begin")
AFTER_APPENDS = declare("log.publish.after-appends")
AFTER_VIEWS = declare("log.publish.after-views")
AFTER_PROGRESS = declare("log.publish.after-progress")


def publish(connection: sqlite3.Connection, publication: Publication, now: int) -> bool:
    """Writes a batch, unless it was published before. Returns whether it was written."""
    reach(BEGIN)
    application = publication.scope.application
    stored = applications.check_epoch(connection, publication.scope, publication.epoch)
    if stored.batch is not None and publication.batch <= stored.batch:
        if publication.batch == stored.batch:
            check_replay(publication, stored.fingerprints)
        return False
    append_all(connection, publication.appends, now)
    reach(AFTER_APPENDS)
    apply_changes(connection, application, publication.views)
    reach(AFTER_VIEWS)
    resolved = resolve(connection, publication.offsets)
    groups.commit(connection, application, resolved)
    stored = applications.put_state(connection, stored, publication.state)
    offsets, fingerprints = merge(stored.offsets, resolved), dict(publication.fingerprints)
    applications.store(connection, stored._replace(batch=publication.batch, fingerprints=fingerprints, offsets=offsets))
    reach(AFTER_PROGRESS)
    return True
