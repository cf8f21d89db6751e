"""A server of SQL in this process: the catalog, the queries, and the handler of requests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from millstream.config import Config
from millstream.core.names import check_name
from millstream.log.opening import log_location, open_location
from millstream.runtime.start.instance_lock import directory_of, lock_application
from millstream.runtime.threads.shared import SharedThreads
from millstream.schemas.registries import ApplicationRegistry, registry_of
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats.with_schemas import inferred_columns
from millstream.sql.functions.user import user_catalogue
from millstream.sql.live.deployment import LiveDeployment
from millstream.sql.live.journal import Journal, replay
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.statements.session import Session
from millstream.sql.syntax import tree


class _Registered:
    """Finds columns in the schema registry."""

    def __init__(self, registry: ApplicationRegistry) -> None:
        self._registry = registry

    def columns(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> tuple[Column, ...] | None:
        """Returns the columns of the schema of a topic."""
        return inferred_columns(format_, topic, self._registry.open(), is_key=is_key, at=at)

    written = columns


class SqlServer:
    """Runs the persistent queries of a data directory or a cluster, and answers requests.

    The statements that have changed something are recorded. A server that starts again has the same catalog, and its
    queries continue where they were.

    Args:
        config: The configuration of the applications, which also locates the log.
        name: The name of the server: servers with different names in one data directory do not see each other's
            streams, tables and queries.

    Attributes:
        handler: Answers requests.
        deployment: Runs the queries.
        problems: Recorded statements that cannot be carried out any more, with the reason.

    Raises:
        AlreadyRunningError: Another process runs this server.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, *, name: str = "sql") -> None:
        check_name(name, "server")
        settings = dict(Config(config or {}).explicit)
        place = log_location(settings)
        settings["state.dir"] = str(place.directory)
        with ExitStack() as opened:
            log = opened.enter_context(open_location(place))
            opened.enter_context(lock_application(directory_of(place, name), name))
            threads = SharedThreads(log)
            opened.callback(threads.close)
            registry = registry_of(name, Config(settings), Path(place.directory))
            self.session = Session(SchemaRules(_Registered(registry)), functions=user_catalogue())
            self.deployment = LiveDeployment(name, log, threads, settings, registry, lambda: self.session.environment)
            opened.callback(self.deployment.close)
            journal = Journal(log, name)
            restored = replay(journal.entries(), self.session)
            for ended in restored.ended:
                self.deployment.forget_query(ended)
            for query, environment in restored.queries.values():
                self.deployment.restore(query, environment, is_paused=query.id in restored.paused)
            for source in restored.tables.values():
                self.deployment.materialize(source)
            self.problems = restored.problems
            self.handler = RequestHandler(self.session, self.deployment, registry, journal)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Stops the queries, which continue at the next start."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
