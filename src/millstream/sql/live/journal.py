"""The journal of statements: the catalog and the queries are there again after a restart."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import MillstreamError
from millstream.log import Log, ProducerRecord
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import DataSource
from millstream.sql.planner.environment import Environment
from millstream.sql.statements.session import Session
from millstream.sql.syntax import parse_statement, tree


def journal_topic(deployment: str) -> str:
    """Returns the name of the topic with the statements of a deployment."""
    return f"{deployment}-statements"


class Entry(Frozen):
    """A statement that has changed something.

    Attributes:
        number: The number of the entry.
        statement: The text of the statement.
        properties: The properties that its request had set.
        variables: The variables that its request had defined.
    """

    number: int
    statement: str
    properties: dict[str, Any]
    variables: dict[str, str]


class Journal:
    """Records statements in an internal topic, before they take effect. Implements `StatementJournal`.

    A statement that fails is revoked by another record. After a crash between the two, the statement is carried out at
    the next start.

    Args:
        log: The log.
        name: The name of the deployment.
    """

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self.topic = journal_topic(name)
        log.create_topic(
            self.topic, 1, {"retention.ms": "-1", "cleanup.policy": "delete"}, internal=True, exist_ok=True
        )
        self._next = 0

    def entries(self) -> list[Entry]:
        """Returns the statements that took effect, in their order."""
        entries: dict[int, Entry] = {}
        end = self._log.ends([self.topic])[self.topic][0]
        at = self._log.starts([self.topic])[self.topic][0]
        follower = self._log.follow()
        try:
            follower.follow({(self.topic, 0): at})
            deadline = time.monotonic() + 60
            while follower.position(self.topic, 0) < end and time.monotonic() < deadline:
                for fetched in follower.poll(0.5):
                    for value in fetched.values:
                        self._apply(json.loads(value or b"{}"), entries)
        finally:
            follower.close()
        return list(entries.values())

    def _apply(self, record: dict[str, Any], entries: dict[int, Entry]) -> None:
        if "revoked" in record:
            entries.pop(record["revoked"], None)
        elif "statement" in record:
            entries[record["number"]] = Entry(
                record["number"], record["statement"], record["properties"], record["variables"]
            )
            self._next = max(self._next, record["number"] + 1)

    @contextlib.contextmanager
    def recording(
        self, statement: tree.Statement, properties: Mapping[str, Any], variables: Mapping[str, str]
    ) -> Iterator[None]:
        """Records a statement; the block carries it out."""
        number, self._next = self._next, self._next + 1
        self._append(number=number, statement=statement.text, properties=dict(properties), variables=dict(variables))
        try:
            yield
        except BaseException:
            self._append(revoked=number)
            raise

    def _append(self, **record: Any) -> None:
        self._log.produce(self.topic, [ProducerRecord(None, json.dumps(record).encode())], partition=0)


class Restored:
    """The result of the statements of a journal.

    Attributes:
        queries: The persistent queries, by id, and what they were planned against.
        paused: The ids of those that are paused.
        tables: The SOURCE TABLEs, by name.
        ended: Queries that have ended.
        problems: Statements that cannot be carried out any more, with the reason.
    """

    def __init__(self) -> None:
        self.queries: dict[str, tuple[PersistentQuery, Environment]] = {}
        self.paused: set[str] = set()
        self.tables: dict[str, DataSource] = {}
        self.ended: list[PersistentQuery] = []
        self.problems: list[tuple[str, str]] = []


def replay(entries: list[Entry], session: Session) -> Restored:
    """Carries out the statements of a journal in the catalog of a session alone."""
    restored = Restored()
    for entry in entries:
        properties = {**session.properties, **entry.properties}
        try:
            statement = parse_statement(entry.statement, entry.variables)
            _replay(statement, session.with_properties(properties), restored)
        except MillstreamError as error:
            restored.problems.append((entry.statement, error.message))
    return restored


def _replay(statement: tree.Statement, session: Session, restored: Restored) -> None:
    catalog = session.catalog
    if isinstance(statement, tree.Terminate):
        chosen = _chosen(statement, catalog.queries)
        for id_ in chosen:
            if statement.action == "PAUSE":
                restored.paused.add(id_)
            else:
                restored.paused.discard(id_)
            if statement.action == "TERMINATE":
                del catalog.queries[id_]
    else:
        query = session.execute(statement)
        if query is not None:
            restored.queries[query.id] = (query, session.environment)
    for id_ in [id_ for id_ in restored.queries if id_ not in catalog.queries]:
        restored.ended.append(restored.queries.pop(id_)[0])
        restored.paused.discard(id_)
    restored.tables = {name: source for name, source in catalog.sources.items() if source.read_only and source.is_table}


def _chosen(statement: tree.Terminate, queries: Mapping[str, PersistentQuery]) -> list[str]:
    if statement.query is None:
        return list(queries)
    return [id_ for id_ in (statement.query, statement.query.upper()) if id_ in queries][:1]
