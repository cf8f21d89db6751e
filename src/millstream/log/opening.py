"""Locates and opens a log: a file in the data directory, or a Kafka cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.config import Config
from millstream.config.profiles import from_environment
from millstream.core.data_directory import FILE_NAME, check_directory, data_directory
from millstream.errors import SetupError
from millstream.log import embedded
from millstream.log.api import Log

_OF_ALL_CLIENTS = ("security.", "ssl.", "sasl.", "enable.ssl.", "client.")
_MS = 1000
_LARGEST = 1_000_000
"""The default of `message.max.bytes` of a producer."""

_RECORD_OVERHEAD = 64
"""The bytes that a producer adds to the size of a record."""


@dataclass(frozen=True)
class Cluster:
    """A Kafka cluster.

    Attributes:
        clients: Settings of all clients.
        producer: Additional settings of producers.
        consumer: Additional settings of consumers.
        topics: The configuration of internal topics.
        timeout: Seconds until a request times out.
        patience: Seconds to wait for an unavailable broker.
    """

    clients: Mapping[str, Any]
    producer: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 30.0
    patience: float = 60.0

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return str(self.clients["bootstrap.servers"])


@dataclass(frozen=True)
class LogLocation:
    """The location of a log.

    Attributes:
        directory: The data directory: of the embedded log, or of the files of a cluster's applications on this machine.
        cluster: The Kafka cluster; None for the embedded log.
    """

    directory: Path
    cluster: Cluster | None = None

    @property
    def views(self) -> Path:
        """The database with the views of stores."""
        return self.directory / (FILE_NAME if self.cluster is None else "views.db")

    @property
    def patience(self) -> float:
        """Seconds to wait for an unavailable broker."""
        return 0.0 if self.cluster is None else self.cluster.patience

    @property
    def largest(self) -> int | None:
        """The maximum size of key, value and headers of a record; None if there is no limit."""
        if self.cluster is None:
            return None
        return int(self.cluster.producer.get("message.max.bytes", _LARGEST)) - _RECORD_OVERHEAD

    def __str__(self) -> str:
        return str(self.directory) if self.cluster is None else self.cluster.servers


def log_location(config: Mapping[str, Any], directory: str | os.PathLike[str] | None = None) -> LogLocation:
    """Returns the location of the log of a configuration.

    Args:
        config: A configuration. The environment may supply the settings of a cluster: see `profiles`.
        directory: The data directory; by default that of the configuration.
    """
    settings = {**Config(from_environment()).explicit, **Config(config).explicit}
    data = data_directory(directory or settings.get("state.dir"))
    if settings.get("bootstrap.servers") is None:
        return LogLocation(data)
    complete = Config(settings)
    topics = {key: str(value) for key, value in _below("topic.", settings).items()}
    if complete["replication.factor"] > 0:
        topics["replication.factor"] = str(complete["replication.factor"])
    return LogLocation(
        data,
        Cluster(
            {
                "bootstrap.servers": settings["bootstrap.servers"],
                **{
                    key: value
                    for key, value in settings.items()
                    if key.startswith(_OF_ALL_CLIENTS) and value is not None
                },
            },
            _below("producer.", settings),
            _below("consumer.", settings),
            topics,
            complete["request.timeout.ms"] / _MS,
            complete["default.api.timeout.ms"] / _MS,
        ),
    )


def open_location(location: LogLocation, *, create: bool = True) -> Log:
    """Opens the log at a location.

    Args:
        location: The location.
        create: Whether to create the data directory, and the embedded log in it, if they do not exist.

    Raises:
        LogError: It cannot be opened.
        SetupError: The client for Kafka is not installed.
    """
    if location.cluster is None:
        return embedded.open_log(location.directory, create=create)
    try:
        from millstream.log.kafka import KafkaLog  # noqa: PLC0415  (the client may not be installed)
    except ImportError:
        hint = 'pip install "millstream[kafka]"'
        raise SetupError("a Kafka cluster requires the package confluent-kafka", hint=hint) from None
    if create or location.directory.exists():
        check_directory(location.directory, create=create)
    return KafkaLog(location.cluster, location.directory)


def open_log(
    directory: str | os.PathLike[str] | None = None, *, create: bool = True, config: Mapping[str, Any] | None = None
) -> Log:
    """Opens the embedded log in a data directory, or the log of a Kafka cluster.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with open_log(directory) as log:
    ...     topic = log.create_topic("lines", partitions=2)
    ...     [topic.name for topic in log.topics()]
    ['lines']

    Args:
        directory: The data directory; by default ``$MILLSTREAM_DATA``, else ``.millstream`` in the working directory.
        create: Whether to create the embedded log if it does not exist.
        config: As for an application: ``bootstrap.servers`` of a cluster, and other settings of its clients.

    Raises:
        LogError: There is no log, or it cannot be used.
    """
    return open_location(log_location(config or {}, directory), create=create)


def _below(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
