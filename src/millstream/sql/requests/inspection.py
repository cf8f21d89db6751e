"""Statements that look at the catalog and the deployment: SHOW, LIST and DESCRIBE."""

from __future__ import annotations

from millstream.errors import SqlStatementError, suggestion
from millstream.sql.catalog.sources import DataSource
from millstream.sql.functions.catalogue import AggregateFunction, Function, TableFunction
from millstream.sql.requests.deployment import Deployment, TopicInfo
from millstream.sql.requests.entities import (
    Entity,
    entity,
    query_info,
    schema_info,
    source_description,
    source_info,
)
from millstream.sql.requests.explain import query_description
from millstream.sql.requests.properties import PROPERTIES, STREAMS_PROPERTIES, RequestSession
from millstream.sql.statements.session import Session
from millstream.sql.syntax import tree

_INTERNAL = ("__", "_confluent", "_schemas")
_INTERNAL_ENDS = ("-changelog", "-repartition")


class Inspection:
    """Answers SHOW, LIST and DESCRIBE.

    Attributes:
        session: The catalog, and the properties of the request.
        deployment: What runs the queries.
        request: What the request has set.
    """

    def __init__(self, session: Session, deployment: Deployment, request: RequestSession) -> None:
        self.session = session
        self.deployment = deployment
        self.request = request

    # ----- SHOW ------------------------------------------------------------------------------------------------------

    def show(self, statement: tree.Show) -> Entity:
        """Returns the entity of a list."""
        text, extended = statement.text, statement.extended
        match statement.what:
            case "STREAMS" | "TABLES":
                return self.sources(text, statement.what, extended=extended)
            case "QUERIES":
                return self._queries(text, extended=extended)
            case "TOPICS" | "ALL TOPICS":
                return self._topics(text, every=statement.what == "ALL TOPICS", extended=extended)
            case "PROPERTIES":
                return self._properties(text)
        return self._names(text, statement.what)

    def _names(self, text: str, what: str) -> Entity:
        match what:
            case "FUNCTIONS":
                functions = [
                    {"name": item.name, "type": _kind(item), "category": item.category.upper()}
                    for item in self.session.functions
                ]
                return entity("function_names", text, functions=functions)
            case "TYPES":
                types = {name: schema_info(type_) for name, type_ in sorted(self.session.catalog.types.items())}
                return entity("type_list", text, types=types)
            case "VARIABLES":
                variables = [{"name": name, "value": value} for name, value in sorted(self.request.variables.items())]
                return entity("variables", text, variables=variables)
            case "CONNECTOR PLUGINS":
                return entity("connector_plugins_list", text, connectorsPlugins=[])
        return entity("connector_list", text, connectors=[])  # there are none, of any kind

    def sources(self, text: str, what: str, *, extended: bool) -> Entity:
        """Returns the streams or the tables."""
        kind = what.removesuffix("S")
        found = sorted(
            (source for source in self.session.catalog.sources.values() if source.kind == kind),
            key=lambda source: source.name,
        )
        if extended:
            described = [self._description(source, extended=True) for source in found]
            return entity("source_descriptions", text, sourceDescriptions=described)
        return entity(what.lower(), text, **{what.lower(): [source_info(source) for source in found]})

    def _queries(self, text: str, *, extended: bool) -> Entity:
        queries = self.session.catalog.queries.values()
        if extended:
            environment = self.session.environment
            described = [query_description(query, environment, self.deployment) for query in queries]
            return entity("query_descriptions", text, queryDescriptions=described)
        listed = [query_info(query, self.deployment.state(query)) for query in queries]
        return entity("queries", text, queries=listed)

    def _topics(self, text: str, *, every: bool, extended: bool) -> Entity:
        found = [topic for topic in self.deployment.topics() if every or not _is_internal(topic)]
        listed = [
            {
                "name": topic.name,
                "replicaInfo": [topic.replicas] * topic.partitions,
                **({"consumerCount": topic.consumers, "consumerGroupCount": topic.groups} if extended else {}),
            }
            for topic in found
        ]
        return entity("kafka_topics_extended" if extended else "kafka_topics", text, topics=listed)

    def _properties(self, text: str) -> Entity:
        listed, set_, defaults = [], [], []
        for scope, known in (("KSQL", PROPERTIES), ("KAFKA STREAMS", STREAMS_PROPERTIES)):
            for name, property_ in sorted(known.items()):
                shown = name if scope == "KSQL" else f"ksql.streams.{name}"
                value = self.session.properties.get(name, property_.default)
                listed.append(
                    {
                        "name": shown,
                        "scope": scope,
                        "value": "" if value is None else str(value),
                        "editable": True,
                        "level": "QUERY",
                    }
                )
                if name in self.request.properties:
                    set_.append(shown)
                elif value == property_.default:
                    defaults.append(shown)
        return entity("properties", text, properties=listed, overwrittenProperties=set_, defaultProperties=defaults)

    # ----- DESCRIBE --------------------------------------------------------------------------------------------------

    def describe(self, statement: tree.Describe) -> Entity:
        """Returns the description of a source or a function, or of all streams or tables."""
        if statement.name is None:
            return self.sources(statement.text, statement.what, extended=True)
        if statement.what == "FUNCTION":
            return self._function(statement.text, self.session.functions.find(statement.name))
        source = self.source(statement)
        return entity(
            "sourceDescription",
            statement.text,
            sourceDescription=self._description(source, extended=statement.extended),
        )

    def source(self, statement: tree.Describe) -> DataSource:
        """Returns the source that DESCRIBE names."""
        sources = self.session.catalog.sources
        source = sources.get(statement.name or "")
        if source is None:
            raise SqlStatementError(
                f"Could not find STREAM/TABLE '{statement.name}' in the Metastore",
                hint=suggestion(statement.name or "", sources) or "SHOW STREAMS and SHOW TABLES list them",
                at=statement.at,
            )
        return source

    def _description(self, source: DataSource, *, extended: bool) -> Entity:
        catalog = self.session.catalog

        def infos(ids: list[str]) -> list[Entity]:
            queries = (catalog.queries[id_] for id_ in ids)
            return [query_info(query, self.deployment.state(query)) for query in queries]

        topic = next((info for info in self.deployment.topics() if info.name == source.topic), None)
        size = (0, 0) if topic is None else (topic.partitions, topic.replicas)
        readers, writers = infos(catalog.readers(source.name)), infos(catalog.writers(source.name))
        return source_description(source, readers, writers, size, extended=extended)

    def _function(self, text: str, function: Function) -> Entity:
        overloads = [
            {
                "arguments": [
                    {
                        "name": f"arg{index}",
                        "type": str(parameter.pattern),
                        "description": "",
                        "isVariadic": parameter.variadic,
                    }
                    for index, parameter in enumerate(signature.parameters)
                ],
                "returnType": "" if signature.result is None else str(signature.result),
                "description": function.documentation,
            }
            for signature in function.signatures
        ]
        return entity(
            "describe_function",
            text,
            name=function.name,
            description=function.documentation,
            author="",
            version="",
            path="internal",
            functions=overloads,
            type=_kind(function),
        )


def _kind(function: Function) -> str:
    if isinstance(function, AggregateFunction):
        return "AGGREGATE"
    return "TABLE" if isinstance(function, TableFunction) else "SCALAR"


def _is_internal(topic: TopicInfo) -> bool:
    return topic.name.startswith(_INTERNAL) or topic.name.endswith(_INTERNAL_ENDS)
