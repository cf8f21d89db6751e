"""The connector types that a configuration can name, and the classes behind them."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from millstream.connect.api import Sink, Source
from millstream.errors import ConfigError, suggestion


class PluginType(NamedTuple):
    """A connector type.

    Attributes:
        name: Its name, as ``connector.class`` has it.
        kind: ``source`` or ``sink``.
        target: Module and class.
        aliases: Names of Kafka Connect's plugins, whose configuration it takes.
        doc: What it does.
    """

    name: str
    kind: str
    target: str
    aliases: tuple[str, ...]
    doc: str


BUILT_IN = (
    PluginType(
        "postgres-cdc",
        "source",
        "millstream.connect.postgres.cdc:PostgresSource",
        ("io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector"),
        "Captures the changes of PostgreSQL tables from the log of the database.",
    ),
    PluginType(
        "postgres-sink",
        "sink",
        "millstream.connect.postgres.sink:PostgresSink",
        (
            "io.debezium.connector.jdbc.JdbcSinkConnector",
            "io.confluent.connect.jdbc.JdbcSinkConnector",
            "JdbcSinkConnector",
        ),
        "Writes topics to PostgreSQL tables, each record exactly once.",
    ),
    PluginType(
        "polling",
        "source",
        "millstream.connect.polling:PollingSource",
        ("io.confluent.connect.jdbc.JdbcSourceConnector", "JdbcSourceConnector"),
        "Polls tables of a database for rows with a greater number or time.",
    ),
    PluginType(
        "triggers",
        "source",
        "millstream.connect.triggers:TriggerSource",
        (),
        "Captures the changes of tables by triggers, which write them to a change table.",
    ),
)
"""The connector types of this package."""


def class_of(name: str, allowed: tuple[str, ...] | None = ()) -> type[Source | Sink]:
    """Returns the class of a connector type.

    Args:
        name: The name of a type, or one of its aliases, or ``module:Class``.
        allowed: The classes outside of this package that may be named, as ``module:Class``; None: any.

    Raises:
        ConfigError: There is no such type, or it is not allowed, or its class is neither a source nor a sink.
    """
    for plugin in BUILT_IN:
        if name == plugin.name or name in plugin.aliases:
            return _load(plugin.target)
    if ":" in name and (allowed is None or name in allowed):
        return _load(name)
    known = [plugin.name for plugin in BUILT_IN] + list(allowed or ())
    hint = suggestion(name, known) or f"the types are: {', '.join(known)}"
    if allowed is None:
        hint += "; or module:Class"
    raise ConfigError(f"there is no connector type {name!r}", hint=hint)


def _load(target: str) -> type[Source | Sink]:
    module, _, name = target.partition(":")
    try:
        plugin = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"connector type {target!r}: {error}", hint="it is module:Class") from error
    if not (isinstance(plugin, type) and issubclass(plugin, Source | Sink)):
        raise ConfigError(f"connector type {target!r} is neither a source nor a sink")
    return plugin
