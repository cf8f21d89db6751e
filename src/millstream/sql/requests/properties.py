"""The properties that a request may set. Everything else is refused, so that no request reaches the server's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import suggestion
from millstream.sql.lowering.timestamps import EXTRACTORS
from millstream.sql.requests.errors import RequestError

_STREAMS = "ksql.streams."


def _boolean(value: Any) -> str:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text


def _text(value: Any) -> str:
    return str(value)


def _number(value: Any) -> str:
    try:
        return str(int(str(value)))
    except ValueError:
        raise ValueError("a whole number") from None


def _offset(value: Any) -> str:
    text = str(value).lower()
    if text not in ("earliest", "latest"):
        raise ValueError("earliest or latest")
    return text


def _extractor(value: Any) -> str:
    if value not in EXTRACTORS:
        raise ValueError(f"one of {', '.join(EXTRACTORS)}")
    return str(value)


class Property(Frozen):
    """A property that a request can set.

    Attributes:
        check: Returns the text of a value, or raises a ValueError that says what the value must be.
        default: Its default, None if it has none.
        documentation: What it does.
    """

    check: Callable[[Any], str]
    default: str | None
    documentation: str


PROPERTIES: dict[str, Property] = {
    "ksql.persistence.default.format.key": Property(
        _text, "KAFKA", "The key format of statements that do not name one."
    ),
    "ksql.persistence.default.format.value": Property(
        _text, None, "The value format of statements that do not name one."
    ),
    "ksql.persistence.wrap.single.values": Property(
        _boolean, None, "Whether a single value column is written in an object, where the format can do both."
    ),
    "ksql.output.topic.name.prefix": Property(
        _text, "", "Begins the name of each topic that CREATE … AS names itself."
    ),
    "ksql.timestamp.throw.on.invalid": Property(
        _boolean, "false", "Whether a record without a valid time stops the query; otherwise, it is dropped."
    ),
    "ksql.query.pull.table.scan.enabled": Property(
        _boolean, "true", "Whether a pull query may read all rows of a table; otherwise, it must name keys."
    ),
    "ksql.query.pull.range.scan.enabled": Property(
        _boolean, "true", "Whether a pull query may read a range of the keys of a table."
    ),
    "ksql.query.pull.limit.clause.enabled": Property(_boolean, "true", "Whether a pull query may have LIMIT."),
    "ksql.query.pull.stream.enabled": Property(_boolean, "true", "Whether a pull query may read a stream."),
    "ksql.query.push.v2.enabled": Property(
        _boolean, "false", "Whether a push query at the tip of a persistent query has the id of a scalable one."
    ),
    "ksql.nested.error.set.null": Property(
        _boolean,
        "true",
        "Whether an element of ARRAY, MAP or STRUCT that fails is NULL; otherwise, the whole value is.",
    ),
    "ksql.new.query.planner.enabled": Property(
        _boolean,
        "false",
        "Whether the key of CREATE STREAM … AS of a plain projection has the key columns that are selected, in the "
        "order of their selection; otherwise, all must be selected, and keep their order.",
    ),
    "ksql.functions.collect_list.limit": Property(_number, None, "The most elements of COLLECT_LIST."),
    "ksql.functions.collect_set.limit": Property(_number, None, "The most elements of COLLECT_SET."),
}
"""The properties of queries."""

ACCEPTED = (
    "ksql.cast.strings.preserve.nulls",
    "ksql.create.or.replace.enabled",
    "ksql.fail.on.deserialization.error",
    "ksql.fail.on.production.error",
    "ksql.headers.columns.enabled",
    "ksql.insert.into.values.enabled",
    "ksql.json_sr.converter.deserializer.enabled",
    "ksql.lambdas.enabled",
    "ksql.query.pull.consistency.token.enabled",
    "ksql.query.pull.enable",
    "ksql.query.pull.interpreter.enabled",
    "ksql.query.pull.max.allowed.offset.lag",
    "ksql.query.push.v2.catchup.consumer.msg.window",
    "ksql.query.push.v2.continuation.tokens.enabled",
    "ksql.query.push.v2.interpreter.enabled",
    "ksql.query.push.v2.new.latest.delay.ms",
    "ksql.rowpartition.rowoffset.enabled",
    "ksql.source.table.materialization.enabled",
    "ksql.suppress.buffer.size.bytes",
    "ksql.suppress.enabled",
    "ksql.variable.substitution.enable",
)
"""Properties of how ksqlDB runs queries: they are accepted, so that scripts need no change, and do nothing."""

ACCEPTED_TEXT = "Accepted, without an effect."

STREAMS_PROPERTIES: dict[str, Property] = {
    "auto.offset.reset": Property(
        _offset, "latest", "Where a query begins to read a topic: ``earliest`` or ``latest``."
    ),
    "cache.max.bytes.buffering": Property(_number, None, ACCEPTED_TEXT),
    "commit.interval.ms": Property(_number, None, ACCEPTED_TEXT),
    "default.timestamp.extractor": Property(
        _extractor,
        None,
        "The times of records without a TIMESTAMP column: one of Kafka Streams' extractors. By default, records with a "
        "negative time are skipped.",
    ),
    "max.task.idle.ms": Property(_number, None, ACCEPTED_TEXT),
    "num.stream.threads": Property(_number, None, ACCEPTED_TEXT),
    "processing.guarantee": Property(_text, None, ACCEPTED_TEXT),
}
"""Properties of Kafka Streams, which a statement may also write with the prefix ``ksql.streams.``."""

_FUNCTIONS = "ksql.functions."


def plain_name(name: str) -> str:
    """Returns the name of a property without the prefix of Kafka Streams.

    >>> plain_name("ksql.streams.auto.offset.reset")
    'auto.offset.reset'
    """
    return name.removeprefix(_STREAMS)


def is_known(name: str) -> bool:
    """Whether a request can set a property."""
    return plain_name(name) in STREAMS_PROPERTIES or name in PROPERTIES or _has_free_value(name)


def checked(name: str, value: Any) -> tuple[str, str]:
    """Returns the name and the value of a property that a request sets.

    Raises:
        RequestError: A request cannot set the property, or not to this value.
    """
    plain = plain_name(name)
    if _has_free_value(name):
        return name, _text(value)
    known = STREAMS_PROPERTIES.get(plain) or PROPERTIES.get(name)
    if known is None:
        raise RequestError(
            f"Unknown property: {name}", hint=suggestion(name, (*PROPERTIES, *STREAMS_PROPERTIES)) or _HINT
        )
    try:
        return plain, known.check(value)
    except ValueError as error:
        raise RequestError(f"Invalid value {value} for property {name}: it must be {error}.") from None


def _has_free_value(name: str) -> bool:
    own = name.startswith(_FUNCTIONS) and name not in PROPERTIES  # functions of the user have properties, too
    return own or name in ACCEPTED


_HINT = "SHOW PROPERTIES lists the properties that a request can set"


class RequestSession:
    """What SET and DEFINE change: one for each request, or one for all statements of a shell.

    Attributes:
        properties: The properties that are set.
        variables: The variables that are defined, by name in upper case.
    """

    def __init__(self, properties: Mapping[str, Any] | None = None, variables: Mapping[str, str] | None = None) -> None:
        self.properties: dict[str, str] = dict(checked(name, value) for name, value in (properties or {}).items())
        self.variables: dict[str, str] = {name.upper(): value for name, value in (variables or {}).items()}

    def set(self, name: str, value: Any) -> None:
        """Sets a property."""
        plain, text = checked(name, value)
        self.properties[plain] = text

    def unset(self, name: str) -> None:
        """Takes the value of a property away; the server's own holds again."""
        if not is_known(name):
            raise RequestError(f"Unknown property: {name}", hint=_HINT)
        self.properties.pop(plain_name(name), None)

    def copy(self) -> RequestSession:
        """Returns a session with the same properties and variables, which changes by itself."""
        other = RequestSession()
        other.properties, other.variables = dict(self.properties), dict(self.variables)
        return other
