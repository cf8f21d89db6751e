"""ASSERT TOPIC and ASSERT SCHEMA: wait until something exists, or is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream.errors import SqlStatementError, UnknownSchemaError
from millstream.schemas.registries import ApplicationRegistry
from millstream.sql.requests.deployment import Deployment
from millstream.sql.requests.entities import Entity, entity
from millstream.sql.requests.errors import ASSERTION_FAILED, RequestError
from millstream.sql.syntax import tree

_DEFAULT_TIMEOUT = 1000
_LONGEST = 60 * 60 * 1000
_STEP = 0.05


def assert_topic(statement: tree.AssertTopic, deployment: Deployment) -> Entity:
    """Checks that a topic exists with these partitions and replicas, or that it does not exist.

    Raises:
        RequestError: It is otherwise, and stays so until the timeout.
    """
    wanted = {}
    for name, literal in statement.properties.items:
        if name not in ("PARTITIONS", "REPLICAS"):
            raise SqlStatementError(f"Cannot assert unknown topic property: {name}", at=literal.at)
        wanted[name] = str(literal.value)

    def problem() -> str | None:
        info = next((topic for topic in deployment.topics() if topic.name == statement.topic), None)
        if not statement.exists:
            return None if info is None else f"Topic {statement.topic} exists"
        if info is None:
            return f"Topic {statement.topic} does not exist"
        actual = {"PARTITIONS": str(info.partitions), "REPLICAS": str(info.replicas)}
        differences = [
            f"Mismatched configuration for topic {statement.topic}: For config {name.lower()}, expected {value} got "
            f"{actual[name]}"
            for name, value in wanted.items()
            if actual[name] != value
        ]
        return "\n".join(differences) or None

    _wait(problem, statement)
    return entity("assert_topic", statement.text, topicName=statement.topic, exists=statement.exists)


def assert_schema(statement: tree.AssertSchema, registry: ApplicationRegistry | None) -> Entity:
    """Checks that a schema is registered, or that it is not.

    Raises:
        RequestError: It is otherwise, and stays so until the timeout.
    """
    if statement.subject is None and statement.id is None:
        raise SqlStatementError("ASSERT SCHEMA needs a SUBJECT or an ID", at=statement.at)
    shown = " and ".join(
        f"{name} {value}" for name, value in (("subject name", statement.subject), ("id", statement.id)) if value
    )

    def problem() -> str | None:
        found = registry is not None and _registered(registry, statement.subject, statement.id)
        if found == statement.exists:
            return None
        return f"Schema with {shown} {'exists' if found else 'does not exist'}"

    _wait(problem, statement)
    return entity("assert_schema", statement.text, subject=statement.subject, id=statement.id, exists=statement.exists)


def _registered(registry: ApplicationRegistry, subject: str | None, id_: int | None) -> bool:
    opened = registry.open()
    if subject is not None and subject not in opened.subjects():
        return False
    if id_ is None:
        return True
    try:
        opened.schema(id_, subject)
    except UnknownSchemaError:
        return False
    return subject is None or any(opened.version(subject, number).id == id_ for number in opened.versions(subject))


def _wait(problem: Callable[[], str | None], statement: tree.AssertTopic | tree.AssertSchema) -> None:
    timeout = statement.timeout
    if timeout is not None and timeout > _LONGEST:
        raise SqlStatementError("TIMEOUT is at most 1 HOUR", hint="a request waits that long", at=statement.at)
    deadline = time.monotonic() + (_DEFAULT_TIMEOUT if timeout is None else timeout) / 1000
    while (message := problem()) is not None:
        if time.monotonic() >= deadline:
            raise RequestError(message, error_code=ASSERTION_FAILED)
        time.sleep(_STEP)
