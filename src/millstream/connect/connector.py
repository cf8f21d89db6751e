"""A connector as an application has it: a source or a sink, its name, and how its records are read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from millstream.connect.api import Sink, Source, Transform
from millstream.connect.converters import Converter, converter_for
from millstream.connect.converters.json import JSON_WITH_SCHEMA
from millstream.core.asynchronous import ASYNC_HINT, is_async
from millstream.core.names import check_name
from millstream.errors import ConfigError, suggestion
from millstream.serde import Serde, serde_for

OnError: TypeAlias = Literal["fail", "continue"]

_ON_ERROR = ("fail", "continue")
_OFFSET_RESETS = ("earliest", "latest")
_MOST_TASKS = 64


@dataclass(frozen=True, slots=True)
class SourceConnector:
    """A source of an application.

    Attributes:
        name: The name of the connector.
        source: The source.
        key: Writes the keys.
        value: Writes the values.
        transforms: Functions that change records on their way.
        on_error: How a record is handled that cannot be transformed or written.
        partitions: The number of partitions of topics that the connector creates.
        topic_config: The configuration of topics that the connector creates.
    """

    name: str
    source: Source
    key: Converter
    value: Converter
    transforms: tuple[Transform, ...] = ()
    on_error: OnError = "fail"
    partitions: int = 1
    topic_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkConnector:
    """A sink of an application.

    Attributes:
        name: The name of the connector.
        sink: The sink.
        topics: The topics that it reads.
        key: Reads the keys.
        value: Reads the values.
        transforms: Functions that change records on their way.
        on_error: How a record is handled that cannot be read, transformed or written.
        dead_letter_topic: The topic of such records; None: they are dropped, and counted.
        tasks: The number of tasks among which the partitions are divided.
        offset_reset: Where the first start begins to read a partition: ``earliest`` or ``latest``.
    """

    name: str
    sink: Sink
    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    transforms: tuple[Transform, ...] = ()
    on_error: OnError = "fail"
    dead_letter_topic: str | None = None
    tasks: int = 1
    offset_reset: Literal["earliest", "latest"] = "earliest"


Connector: TypeAlias = SourceConnector | SinkConnector


_OF_SOURCES: tuple[str, ...] = ("key", "value", "transforms", "on_error", "partitions", "topic_config")
_OF_SINKS: tuple[str, ...] = (
    "key",
    "value",
    "transforms",
    "on_error",
    "topics",
    "dead_letter_topic",
    "tasks",
    "offset_reset",
)


def connector_of(name: str, plugin: Source | Sink, options: Mapping[str, Any]) -> Connector:
    """Returns the connector of a source or a sink: see `App.connect`.

    Raises:
        ConfigError: An option is unknown or wrong.
    """
    given: dict[str, Any] = dict(options)
    if isinstance(plugin, Source):
        kind, known = "source", _OF_SOURCES
    elif isinstance(plugin, Sink):
        kind, known = "sink", _OF_SINKS
    else:
        raise ConfigError(
            f"connector {name}: {plugin!r} is neither a source nor a sink",
            hint="pass an object of a subclass of Source or Sink",
        )
    for option in given:
        if option not in known:
            hint = suggestion(option, known) or f"a {kind} has: {', '.join(known)}"
            raise ConfigError(f"connector {name}: a {kind} has no option {option!r}", hint=hint)
    if isinstance(plugin, Source):
        return _source(name, plugin, **given)
    return _sink(name, plugin, **given)


def _source(
    name: str,
    source: Source,
    *,
    key: Any = "json",
    value: Any = "json",
    transforms: Sequence[Transform] = (),
    on_error: OnError = "fail",
    partitions: int = 1,
    topic_config: Mapping[str, str] | None = None,
) -> SourceConnector:
    """Checks the options of a source and returns the connector."""
    check_name(name, "connector")
    _one_of("on_error", on_error, _ON_ERROR)
    if not isinstance(partitions, int) or partitions < 1:
        raise ConfigError(f"connector {name}: partitions is {partitions!r}, and must be a whole number from 1 on")
    return SourceConnector(
        name,
        source,
        converter_for(key, "key"),
        converter_for(value, "value"),
        _transforms(name, transforms),
        on_error,
        partitions,
        dict(topic_config or {}),
    )


def _sink(
    name: str,
    sink: Sink,
    *,
    topics: Sequence[str] | str = (),
    key: Any = str,
    value: Any = "json",
    transforms: Sequence[Transform] = (),
    on_error: OnError = "fail",
    dead_letter_topic: str | None = None,
    tasks: int = 1,
    offset_reset: Literal["earliest", "latest"] = "earliest",
) -> SinkConnector:
    """Checks the options of a sink and returns the connector."""
    check_name(name, "connector")
    _one_of("on_error", on_error, _ON_ERROR)
    _one_of("offset_reset", offset_reset, _OFFSET_RESETS)
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names:
        raise ConfigError(f"connector {name} is a sink without topics", hint="give topics=['…']")
    for topic in names:
        check_name(topic, "topic")
    if dead_letter_topic is not None:
        check_name(dead_letter_topic, "topic")
        if on_error == "fail":
            raise ConfigError(
                f"connector {name}: dead_letter_topic has no effect with on_error='fail'",
                hint="give on_error='continue' as well",
            )
    if not isinstance(tasks, int) or not 1 <= tasks <= _MOST_TASKS:
        raise ConfigError(f"connector {name}: tasks is {tasks!r}, and must be from 1 to {_MOST_TASKS}")
    return SinkConnector(
        name,
        sink,
        names,
        _sink_serde(key, "key"),
        _sink_serde(value, "value"),
        _transforms(name, transforms),
        on_error,
        dead_letter_topic,
        tasks,
        offset_reset,
    )


def _sink_serde(given: Any, part: str) -> Serde[Any]:
    """The serde of a sink; the names of converters stand for serdes that read what these write."""
    if given == "json-schemas":
        return JSON_WITH_SCHEMA
    if given == "avro":
        from millstream.schemas.avro import avro

        return avro()
    return serde_for(given, part)


def _one_of(option: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{option} is {value!r}", hint=f"it is one of: {', '.join(allowed)}")


def _transforms(name: str, given: Sequence[Transform]) -> tuple[Transform, ...]:
    functions = tuple(given) if isinstance(given, Sequence) else (given,)
    for function in functions:
        if not callable(function):
            raise ConfigError(f"connector {name}: a transform is {function!r}", hint="a transform is a function")
        if is_async(function):
            raise ConfigError(f"connector {name}: the transform {function!r} is asynchronous", hint=ASYNC_HINT)
    return functions
