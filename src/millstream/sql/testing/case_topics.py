"""The topics that exist before the statements of a case run, and the schemas of their subjects.

The ids of schemas are those of ksqlDB's own tool, which registers them in the order of a hash map of the topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import SqlError
from millstream.registry.api import Schema
from millstream.sql.binder.expressions import resolve_type
from millstream.sql.catalog.properties import CREATE_PROPERTIES, check_properties
from millstream.sql.formats import derived_schema, format_of
from millstream.sql.functions.java.hashing import hash_order
from millstream.sql.statements.schemas import SchemaRules, default_wrapping
from millstream.sql.statements.sources import source_columns, source_formats
from millstream.sql.syntax import tree
from millstream.sql.testing.cases import Topic
from millstream.sql.types import STRING, SqlType

PARTITIONS = 4
"""The partitions of a topic for which the case gives no number."""


class CaseTopic(Frozen):
    """A topic, and the schemas of its subjects that follow from the columns of a statement."""

    topic: Topic
    key: Schema | None = None
    value: Schema | None = None


def case_topics(
    given: Sequence[Topic],
    statements: Iterable[tree.Statement],
    named: Iterable[str],
    partitions: int,
    properties: Mapping[str, Any],
    rules: SchemaRules,
) -> list[CaseTopic]:
    """Returns the topics of a case, in the order in which their schemas are registered.

    Args:
        given: The topics that the case lists.
        statements: The statements, which name topics and columns.
        named: The topics of the records.
        partitions: The partitions of a topic for which the case gives no number.
        properties: The properties of the session.
        rules: What formats ask of columns.
    """
    found = {topic.name: CaseTopic(topic) for topic in given}
    types: dict[str, SqlType] = {}
    for statement in statements:
        try:
            if isinstance(statement, tree.CreateType):
                types[statement.name] = resolve_type(statement.type, types)
            elif isinstance(statement, tree.CreateSource):
                _add(found, statement, partitions, types, properties, rules)
        except SqlError:
            continue  # the case reports the error when it executes the statement
    for name in named:
        found.setdefault(name, CaseTopic(Topic(name=name, partitions=partitions)))
    return [found[name] for name in hash_order(found, STRING)]


def _add(
    found: dict[str, CaseTopic],
    statement: tree.CreateSource,
    partitions: int,
    types: Mapping[str, SqlType],
    defaults: Mapping[str, Any],
    rules: SchemaRules,
) -> None:
    properties = check_properties(statement.properties, CREATE_PROPERTIES)
    name = properties.get("KAFKA_TOPIC")
    if name is None:
        return
    known = found.get(name) or CaseTopic(Topic(name=name, partitions=properties.get("PARTITIONS", partitions)))
    found[name] = known
    key, value, _headers = source_columns(statement, types)
    schemas: list[Schema | None] = []
    sides = zip((key, value), source_formats(properties, defaults, statement), (True, False), strict=True)
    for columns, format_, is_key in sides:
        if not columns or not format_of(format_.name).infers:
            schemas.append(None)
            continue
        spec = rules.with_features(format_, columns, properties, is_key=is_key, source=statement.name)
        schemas.append(derived_schema(spec if is_key else default_wrapping(spec, defaults), columns, is_key=is_key))
    found[name] = CaseTopic(known.topic, known.key or schemas[0], known.value or schemas[1])
