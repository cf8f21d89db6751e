"""The parts of the embedded log that the runtime uses: applications, views and cleanup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.core.failpoints import declare, reach
from millstream.log.api import ChangesOf, Offsets, Publication, Published, Removed, Scope
from millstream.log.embedded import applications, compaction, publish, retention
from millstream.log.embedded.database import Database, now_ms
from millstream.views.integrity import begin_rebuild, end_rebuild, find_damaged
from millstream.views.tables import apply_changes, drop_store

PUBLISH_BEFORE_COMMIT = declare("log.publish.before-commit")
PUBLISH_AFTER_COMMIT = declare("log.publish.after-commit")


class EmbeddedApplications:
    """The `Applications` of an embedded log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, scope: Scope, *, application_epoch: int | None = None) -> int:
        """Makes the caller the only instance of a scope that can write, and returns its epoch."""
        with self._database.write() as connection:
            return applications.acquire(connection, scope, application_epoch)

    def publish(self, publication: Publication) -> bool:
        """Writes all changes of a batch, once. Returns whether this call has written them."""
        with self._database.write() as connection:
            written = publish.publish(connection, publication, now_ms())
            reach(PUBLISH_BEFORE_COMMIT)
        reach(PUBLISH_AFTER_COMMIT)
        return written

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
