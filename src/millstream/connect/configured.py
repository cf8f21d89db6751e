"""Connectors from a configuration with Kafka Connect's names: a table of a TOML file, or a JSON object."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from millstream.connect.api import Sink, Source
from millstream.connect.connector import Connector, connector_of
from millstream.connect.plugins import class_of
from millstream.errors import ConfigError

_TYPE = "connector.class"

_CONVERTERS = {
    "org.apache.kafka.connect.storage.StringConverter": "string",
    "org.apache.kafka.connect.converters.ByteArrayConverter": "bytes",
    "org.apache.kafka.connect.converters.LongConverter": "long",
    "org.apache.kafka.connect.converters.IntegerConverter": "int",
    "org.apache.kafka.connect.converters.DoubleConverter": "double",
    "io.confluent.connect.avro.AvroConverter": "avro",
}
_JSON = "org.apache.kafka.connect.json.JsonConverter"

_TOPIC_DEFAULTS = "topic.creation.default."
_ON_ERROR = {"none": "fail", "all": "continue"}


def flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns a nested table as one level of dotted keys.

    >>> flattened({"database": {"hostname": "db", "port": 5432}})
    {'database.hostname': 'db', 'database.port': 5432}
    """
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def connectors_in(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[Connector]]:
    """Returns the configuration of the application in a file, and its connectors.

    Raises:
        ConfigError: There are no connectors, or a key is missing or wrong.
    """
    own = dict(table)
    connectors = own.pop("connectors", None)
    if not isinstance(connectors, Mapping) or not connectors:
        raise ConfigError("there are no connectors", hint="each one has a table: [connectors.NAME]")
    found = []
    for name, config in connectors.items():
        if not isinstance(config, Mapping):
            raise ConfigError(f"connectors.{name} is not a table", hint=f"write [connectors.{name}]")
        found.append(connector_from(name, config, None))
    return flattened(own), found


def connector_from(name: str, config: Mapping[str, Any], allowed: tuple[str, ...] | None = ()) -> Connector:
    """Returns the connector of a configuration.

    Keys of the connector itself have Kafka Connect's names; all others go to the plugin.

    Args:
        name: The name of the connector.
        config: The configuration, with dotted keys or nested.
        allowed: The classes outside of this package that ``connector.class`` may name; None: any.

    Raises:
        ConfigError: A key is missing or wrong.
    """
    settings = flattened(config)
    if _TYPE not in settings:
        raise ConfigError(f"connector {name}: {_TYPE} is missing", hint="for example: postgres-cdc")
    try:
        plugin_class = class_of(str(settings.pop(_TYPE)), allowed)
    except ConfigError as error:
        raise ConfigError(f"connector {name}: {error.message}", hint=error.hint) from error
    settings.pop("name", None)
    is_sink = issubclass(plugin_class, Sink)
    options = _options(name, settings, is_sink=is_sink, may_load=allowed is None)
    try:
        plugin: Source | Sink = plugin_class.from_config(settings)
    except TypeError as error:  # an unknown argument of a class that has no settings of its own
        raise ConfigError(f"connector {name}: {error}") from error
    return connector_of(name, plugin, options)


def _options(name: str, settings: dict[str, Any], *, is_sink: bool, may_load: bool) -> dict[str, Any]:
    """Takes the keys of the connector itself out of the settings."""
    options: dict[str, Any] = {}

    def take(key: str, option: str, convert: Callable[[Any], Any]) -> None:
        if key in settings:
            options[option] = convert(settings.pop(key))

    for part in ("key", "value"):
        converter = _converter(name, settings, part)
        if converter is not None:
            options[part] = converter
    take("errors.tolerance", "on_error", lambda value: _on_error(name, value))
    if "transforms" in settings:
        options["transforms"] = _transforms(name, settings.pop("transforms"), may_load=may_load)
    if is_sink:
        take("topics", "topics", _listed)
        take("tasks.max", "tasks", lambda value: _whole(name, "tasks.max", value))
        take("errors.deadletterqueue.topic.name", "dead_letter_topic", str)
        take("consumer.override.auto.offset.reset", "offset_reset", str)
    else:
        settings.pop("tasks.max", None)  # the splits of a source decide
        take(f"{_TOPIC_DEFAULTS}partitions", "partitions", lambda value: _whole(name, "partitions", value))
        settings.pop(f"{_TOPIC_DEFAULTS}replication.factor", None)  # a setting of the application
        own = [key for key in settings if key.startswith(_TOPIC_DEFAULTS)]
        if own:
            options["topic_config"] = {key.removeprefix(_TOPIC_DEFAULTS): str(settings.pop(key)) for key in own}
    return options


def _converter(name: str, settings: dict[str, Any], part: str) -> str | None:
    given = settings.pop(f"{part}.converter", None)
    schemas = settings.pop(f"{part}.converter.schemas.enable", None)
    for key in [key for key in settings if key.startswith(f"{part}.converter.schema.registry")]:
        raise ConfigError(
            f"connector {name}: {key} is a setting of the application",
            hint="set schema.registry.url of the application",
        )
    if given is None:
        return None
    if given in {_JSON, "json"}:
        has_schemas = given == _JSON if schemas is None else _flag(name, f"{part}.converter.schemas.enable", schemas)
        return "json-schemas" if has_schemas else "json"
    return _CONVERTERS.get(str(given), str(given))


def _transforms(name: str, given: Any, *, may_load: bool) -> list[Callable[[Any], Any]]:
    functions = []
    for target in _listed(given):
        module, colon, function = target.partition(":")
        if not colon or not may_load:
            raise ConfigError(
                f"connector {name}: the transform {target!r} is not allowed",
                hint="transforms are functions, as module:function, in a file that millstream run loads",
            )
        try:
            functions.append(getattr(importlib.import_module(module), function))
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"connector {name}: transform {target!r}: {error}") from error
    return functions


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return [str(item) for item in value]


def _whole(name: str, key: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConfigError(f"connector {name}: {key} is {value!r}, and must be a whole number") from None


def _flag(name: str, key: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"connector {name}: {key} is {value!r}", hint="it is true or false")
    return text == "true"


def _on_error(name: str, value: Any) -> str:
    if value not in _ON_ERROR:
        raise ConfigError(f"connector {name}: errors.tolerance is {value!r}", hint="it is none or all")
    return _ON_ERROR[value]
