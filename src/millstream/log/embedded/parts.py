"""The parts of the embedded log that the runtime uses: applications, views and cleanup."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from millstream.core.failpoints import declare, reach
from millstream.log.api import Append, ChangesOf, FollowingViews, Offsets, Publication, Published, Removed, Scope
from millstream.log.embedded import applications, compaction, groups, positions, publish, records, retention
from millstream.log.embedded.database import Database, now_ms
from millstream.log.embedded.grouping import GroupCommit
from millstream.views.integrity import begin_rebuild, end_rebuild, find_damaged
from millstream.views.tables import apply_changes, drop_store

PUBLISH_BEFORE_COMMIT = declare("log.publish.before-commit")
PUBLISH_AFTER_COMMIT = declare("log.publish.after-commit")


class EmbeddedApplications:
    """The `Applications` of an embedded log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._publications: GroupCommit[bool] = GroupCommit(database)

    def acquire(self, scope: Scope, *, application_epoch: int | None = None) -> int:
        """Makes the caller the only instance of a scope that can write, and returns its epoch."""
        with self._database.write() as connection:
            return applications.acquire(connection, scope, application_epoch)

    def publish(self, publication: Publication) -> bool:
        """Writes all changes of a batch, once. Returns whether this call has written them."""
        encoded = replace(publication, appends=records.encoded(publication.appends))

        def change(connection: sqlite3.Connection) -> bool:
            written = publish.publish(connection, encoded, now_ms())
            reach(PUBLISH_BEFORE_COMMIT)
            return written

        written = self._publications.write(change)
        reach(PUBLISH_AFTER_COMMIT)
        return written

    def send(self, scope: Scope, epoch: int, appends: Sequence[Append]) -> None:
        """Appends records outside of any batch."""
        encoded = records.encoded(appends)
        with self._database.write() as connection:
            applications.check_epoch(connection, scope, epoch)
            records.append_all(connection, encoded, now_ms())

    def flush(self, scope: Scope, epoch: int, offsets: Offsets | None = None) -> None:
        """Commits offsets. All records that were sent are written already."""
        with self._database.write() as connection:
            applications.check_epoch(connection, scope, epoch)
            if offsets:
                groups.commit(connection, scope.application, positions.resolve(connection, offsets))

    def wait_until_visible(self, scope: Scope, epoch: int) -> None:
        """Does nothing: a publication is visible when it returns."""

    def published(self, scope: Scope) -> Published | None:
        """Returns the last batch that was published in a scope, if any."""
        with self._database.read() as connection:
            return applications.published(connection, scope)

    def state(self, scope: Scope) -> dict[str, bytes]:
        """Returns the recorded state of a scope, by name."""
        with self._database.read() as connection:
            return applications.state(connection, scope)

    def set_state(self, scope: Scope, state: Mapping[str, bytes], epoch: int) -> None:
        """Records entries of the state outside of any batch."""
        with self._database.write() as connection:
            stored = applications.check_epoch(connection, scope, epoch)
            applications.store(connection, applications.put_state(connection, stored, state))

    def delete(self, application: str) -> None:
        """Deletes all that the log holds of an application, except its topics."""
        with self._database.write() as connection:
            applications.delete(connection, application)


class EmbeddedViews:
    """The `ViewStorage` of an embedded log: tables of its own database."""

    following: FollowingViews | None = None

    def __init__(self, database: Database) -> None:
        self._database = database

    def drop(self, application: str, stores: Iterable[str]) -> None:
        """Deletes the views of stores of an application, if there are any."""
        with self._database.write() as connection:
            for name in stores:
                drop_store(connection, application, name)

    def repair(self, application: str, changes: ChangesOf, *, again: bool) -> None:
        """Rebuilds damaged views. None lacks a batch: the changes of views are part of the batch's transaction."""
        with self._database.read() as connection:
            damaged = find_damaged(connection, application)
        if not damaged:
            return
        with self._database.write() as connection:
            stores = begin_rebuild(connection, damaged)
        for change in changes(stores):
            with self._database.write() as connection:
                apply_changes(connection, application, [change])
        with self._database.write() as connection:
            end_rebuild(connection, application, stores)


class EmbeddedCleanup:
    """The `Cleanup` of an embedded log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def hold(self, application: str, offsets: Offsets, *, also: bool = False) -> None:
        """Keeps the records from these offsets on, because the application may read them again."""
        with self._database.write() as connection:
            applications.hold(connection, application, offsets, also=also)

    def release(self, application: str) -> None:
        """Removes the holds of an application."""
        with self._database.write() as connection:
            applications.release(connection, application)

    def apply_retention(self, now: int | None = None) -> Removed:
        """Deletes the records that exceed the retention of their topics."""
        return retention.apply(self._database, now_ms() if now is None else now)

    def compact(self, topic: str, now: int | None = None) -> Removed:
        """Deletes the records of a compacted topic that a later record with the same key has replaced."""
        return compaction.compact(self._database, topic, now_ms() if now is None else now)
