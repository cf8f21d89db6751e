"""The live deployment: an application for each persistent query, and threads that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from millstream.dsl.app import App
from millstream.errors import MillstreamError, SqlStatementError, UnknownTopicError
from millstream.log import Log, ProducerRecord, Scope
from millstream.runtime import admin
from millstream.runtime.facade import Handle, State as ApplicationState, prepare
from millstream.runtime.threads.shared import SharedThreads
from millstream.schemas.registries import ApplicationRegistry
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import DataSource
from millstream.sql.live.applications import (
    application_id,
    query_application,
    table_application,
    table_application_id,
)
from millstream.sql.live.tables import LiveTable
from millstream.sql.live.transient import LiveReader, LiveTransient
from millstream.sql.planner.environment import Environment
from millstream.sql.requests.deployment import NewRecord, State, TopicInfo, TransientQuery

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0


class _Application:
    """An application, which may run.

    Attributes:
        handle: Its handle; None if it could not be started.
        problem: Why it could not be started.
        is_paused: Whether it is to process nothing.
    """

    def __init__(self, id_: str, make: Callable[[], App], *, is_paused: bool = False) -> None:
        self.id = id_
        self._make = make
        self.handle: Handle | None = None
        self.problem: str | None = None
        self.is_paused = is_paused
        self._store: Any = None

    def start(self, threads: SharedThreads) -> None:
        """Starts the application.

        Raises:
            MillstreamError: It cannot run.
        """
        self.problem, self._store = None, None
        app = self._make()
        self.handle = prepare(app.topology(), app.config, threads=threads)
        if self.is_paused:
            self.handle.pause()
        self.handle.start()

    def wait_until_running(self) -> None:
        """Waits until the application runs, or has failed."""
        if self.handle is not None:
            self.handle.wait_for({ApplicationState.RUNNING, ApplicationState.ERROR}, _START_SECONDS)

    def stop(self) -> None:
        """Stops the application; its state stays."""
        if self.handle is not None:
            self.handle.stop(_STOP_SECONDS)

    def failure(self) -> str | None:
        """Why the application does not run."""
        if self.problem is not None:
            return self.problem
        error = None if self.handle is None else self.handle.error
        return None if error is None else error.message

    def store(self, name: str) -> Any:
        """Opens the view of a store, with timestamps."""
        if self._store is None:
            assert self.handle is not None
            self._store = self.handle.store(name, timestamped=True)
        return self._store


class LiveDeployment:
    """Runs queries. Implements `Deployment`.

    Each query is an application in local execution, so it has its own state, offsets, transactions and errors. All
    applications share the threads and the log of the deployment.

    Args:
        name: The name of the deployment, with which the ids of its applications begin.
        log: The log.
        threads: The threads.
        config: The configuration of the applications.
        registry: The schema registry.
        environment: Returns types and functions of now.
    """

    def __init__(
        self,
        name: str,
        log: Log,
        threads: SharedThreads,
        config: Mapping[str, Any],
        registry: ApplicationRegistry,
        environment: Callable[[], Environment],
    ) -> None:
        self._name = name
        self._log = log
        self._threads = threads
        self._config = {
            "deserialization.exception.handler": "continue",
            **config,
            "execution.mode": "local",
            "status": "none",
        }
        self._registry = registry
        self._environment = environment
        self._queries: dict[str, _Application] = {}
        self._tables: dict[str, _Application] = {}

    # ----- persistent queries ----------------------------------------------------------------------------------------

    def start(self, query: PersistentQuery, environment: Environment, replaces: PersistentQuery | None = None) -> None:
        """Starts a query."""
        former = None if replaces is None else self._queries.pop(replaces.id, None)
        if former is not None:
            former.stop()
        application = self._application(query, environment)
        application.is_paused = former is not None and former.is_paused
        try:
            if former is None:
                self._forget(application.id)  # what a crash has left of a query that was never acknowledged
            application.start(self._threads)
        except MillstreamError:
            if former is not None and replaces is not None:
                former.start(self._threads)
                self._queries[replaces.id] = former
            raise
        application.wait_until_running()
        self._queries[query.id] = application

    def restore(self, query: PersistentQuery, environment: Environment, *, is_paused: bool) -> None:
        """Starts a query again that an earlier process has run. If that fails, the query is shown as failed."""
        application = self._application(query, environment)
        application.is_paused = is_paused
        self._queries[query.id] = application
        try:
            application.start(self._threads)
        except MillstreamError as error:
            application.problem = error.message

    def _application(self, query: PersistentQuery, environment: Environment) -> _Application:
        id_ = application_id(self._name, query)
        make = partial(query_application, id_, query, environment, self._config)
        return _Application(id_, make)

    def terminate(self, query: PersistentQuery) -> None:
        """Stops a query for good, and deletes its state."""
        application = self._queries.pop(query.id, None)
        if application is not None:
            application.stop()
        self._forget(application_id(self._name, query))

    def forget_query(self, query: PersistentQuery) -> None:
        """Deletes the state of a query that has ended, if there is any: the process may have ended in between."""
        id_ = application_id(self._name, query)
        if id_ not in {application.id for application in self._queries.values()}:
            self._forget(id_)

    def _forget(self, id_: str) -> None:
        if self._log.applications.state(Scope(id_)):
            admin.reset(id_, state_dir=self._config.get("state.dir"), config=self._config)
            self._log.applications.delete(id_)

    def pause(self, query: PersistentQuery) -> None:
        """Stops the processing of a query until it is resumed."""
        application = self._queries[query.id]
        application.is_paused = True
        if application.handle is not None:
            application.handle.pause()

    def resume(self, query: PersistentQuery) -> None:
        """Resumes a query; one that has failed is started again."""
        application = self._queries[query.id]
        application.is_paused = False
        if application.failure() is not None:
            application.stop()
            application.start(self._threads)
            application.wait_until_running()
        elif application.handle is not None:
            application.handle.resume()

    def state(self, query: PersistentQuery) -> State:
        """Returns the state of a query. One that is in the catalog, and is being started, is running."""
        application = self._queries.get(query.id)
        if application is None:
            return "RUNNING"
        if application.failure() is not None:
            return "ERROR"
        return "PAUSED" if application.is_paused else "RUNNING"

    def problem(self, query: PersistentQuery) -> str | None:
        """Returns the error that a query failed with."""
        application = self._queries.get(query.id)
        return None if application is None else application.failure()

    def describe(self, query: PersistentQuery, environment: Environment) -> tuple[str, str]:
        """Returns the description of a query's topology, and of the plan before optimisation."""
        id_ = application_id(self._name, query)
        optimized = query_application(id_, query, environment, self._config).describe()
        config = {**self._config, "topology.optimization": "none"}
        return optimized, query_application(id_, query, environment, config).describe()

    def metrics(self, query: PersistentQuery) -> dict[str, Any]:
        """Returns the metrics of a query; none if it does not run."""
        handle = self._queries[query.id].handle
        return {} if handle is None else handle.metrics()

    # ----- tables ----------------------------------------------------------------------------------------------------

    def materialize(self, source: DataSource) -> None:
        """Makes a SOURCE TABLE readable by `table`."""
        id_ = table_application_id(self._name, source)
        make = partial(table_application, id_, source, self._environment(), self._config)
        application = self._tables[source.name] = _Application(id_, make)
        application.start(self._threads)

    def forget(self, source: DataSource) -> None:
        """Ends that: the SOURCE TABLE is dropped."""
        application = self._tables.pop(source.name, None)
        if application is not None:
            application.stop()
            self._forget(application.id)

    def table(self, source: DataSource) -> LiveTable:
        """Returns the rows of a table that a query writes, or of a SOURCE TABLE."""
        application = self._tables.get(source.name) or self._queries.get(source.query or "")
        if application is None or application.handle is None:
            raise SqlStatementError(
                f"no query runs that writes the table {source.name}, so its rows cannot be read",
                hint="SHOW QUERIES lists the queries and their errors",
            )
        return LiveTable(source, partial(application.store, source.name))

    # ----- topics ----------------------------------------------------------------------------------------------------

    def topics(self) -> Sequence[TopicInfo]:
        """Returns all topics."""
        topics = sorted(self._log.topics(), key=lambda topic: topic.name)
        return [TopicInfo(topic.name, topic.partitions) for topic in topics]

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> None:
        """Creates a topic unless it exists."""
        self._log.create_topic(name, partitions or 1, config, exist_ok=True)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        try:
            self._log.delete_topic(name)
        except UnknownTopicError:
            return

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Appends records in one transaction."""
        self._log.produce(topic, [ProducerRecord(each.key, each.value, each.timestamp) for each in records])

    def read(self, topic: str, *, from_beginning: bool) -> LiveReader:
        """Returns a reader of a topic."""
        return LiveReader(self._log, [topic], [topic] if from_beginning else [])

    # ----- transient queries -----------------------------------------------------------------------------------------

    def run(self, query: TransientQuery, environment: Environment) -> LiveTransient:
        """Starts a transient query."""
        return LiveTransient(self._log, query, environment, self._registry)

    # ----- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops all queries. They continue when they are restored."""
        applications = [*self._queries.values(), *self._tables.values()]
        for application in applications:
            if application.handle is not None:
                application.handle.stop(0)
        for application in applications:
            application.stop()
