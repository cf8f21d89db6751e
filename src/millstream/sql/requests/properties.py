"""The properties that a request may set. Everything else is refused, so that no request reaches the server's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millstream.errors import suggestion
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


PROPERTIES: dict[str, tuple[Callable[[Any], str], str | None]] = {
    "ksql.persistence.default.format.key": (_text, "KAFKA"),
    "ksql.persistence.default.format.value": (_text, None),
    "ksql.persistence.wrap.single.values": (_boolean, None),
    "ksql.output.topic.name.prefix": (_text, ""),
    "ksql.timestamp.throw.on.invalid": (_boolean, "false"),
    "ksql.nested.error.set.null": (_boolean, "true"),
    "ksql.new.query.planner.enabled": (_boolean, "false"),
    "ksql.rowpartition.rowoffset.enabled": (_boolean, "true"),
    "ksql.headers.columns.enabled": (_boolean, "true"),
    "ksql.query.pull.table.scan.enabled": (_boolean, "true"),
    "ksql.query.pull.range.scan.enabled": (_boolean, "true"),
    "ksql.query.pull.limit.clause.enabled": (_boolean, "true"),
    "ksql.query.pull.stream.enabled": (_boolean, "true"),
    "ksql.query.push.v2.enabled": (_boolean, "false"),
    "ksql.functions.collect_list.limit": (_number, None),
    "ksql.functions.collect_set.limit": (_number, None),
}
"""The properties of queries, each with the check of its value and its default."""

ACCEPTED = (
    "ksql.cast.strings.preserve.nulls",
    "ksql.create.or.replace.enabled",
    "ksql.fail.on.deserialization.error",
    "ksql.fail.on.production.error",
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
    "ksql.source.table.materialization.enabled",
    "ksql.suppress.buffer.size.bytes",
    "ksql.suppress.enabled",
    "ksql.variable.substitution.enable",
)
"""Properties of how ksqlDB runs queries: they are accepted, so that scripts need no change, and do nothing."""

STREAMS_PROPERTIES: dict[str, tuple[Callable[[Any], str], str | None]] = {
    "auto.offset.reset": (_offset, "latest"),
    "cache.max.bytes.buffering": (_number, None),
    "commit.interval.ms": (_number, None),
    "default.timestamp.extractor": (_text, None),
    "max.task.idle.ms": (_number, None),
    "num.stream.threads": (_number, None),
    "processing.guarantee": (_text, None),
}
"""Properties of Kafka Streams, which a statement may also write with the prefix ``ksql.streams.``. Queries
follow ``auto.offset.reset``; the others are accepted, and the workers keep their own settings."""

_FUNCTIONS = "ksql.functions."


def plain_name(name: str) -> str:
    """Returns the name of a property without the prefix of Kafka Streams.

    >>> plain_name("ksql.streams.auto.offset.reset")
    'auto.offset.reset'
    """
    return name.removeprefix(_STREAMS)


def checked(name: str, value: Any) -> tuple[str, str]:
    """Returns the name and the value of a property that a request sets.

    Raises:
        RequestError: A request cannot set the property, or not to this value.
    """
    plain = plain_name(name)
    known = STREAMS_PROPERTIES.get(plain) or PROPERTIES.get(name)
    if known is None and _has_free_value(name):
        return name, _text(value)
    if known is None:
        raise RequestError(
            f"Unknown property: {name}", hint=suggestion(name, (*PROPERTIES, *STREAMS_PROPERTIES)) or _HINT
        )
    try:
        return plain, known[0](value)
    except ValueError as error:
        raise RequestError(f"Invalid value {value} for property {name}: it must be {error}.") from None


def _has_free_value(name: str) -> bool:
    return name in ACCEPTED or name.startswith(_FUNCTIONS)  # functions of the user have properties, too


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
        checked_name = plain_name(name)
        if checked_name not in STREAMS_PROPERTIES and name not in PROPERTIES and not _has_free_value(name):
            raise RequestError(f"Unknown property: {name}", hint=_HINT)
        self.properties.pop(checked_name, None)

    def copy(self) -> RequestSession:
        """Returns a session with the same properties and variables, which changes by itself."""
        other = RequestSession()
        other.properties, other.variables = dict(self.properties), dict(self.variables)
        return other
