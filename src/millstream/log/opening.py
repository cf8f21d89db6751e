"""Where a log is, and how it is opened: a file in the data directory, or a Kafka cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.config import Config
from millstream.config.profiles import from_environment
from millstream.errors import SetupError
from millstream.log import embedded
from millstream.log.api import Log
from millstream.log.embedded.directory import FILE_NAME, check_directory, data_directory

_OF_ALL_CLIENTS = ("security.", "ssl.", "sasl.", "enable.ssl.", "client.")
_MS = 1000
_LARGEST = 1_000_000
"""Of a producer that is told nothing else."""

_OF_A_RECORD = 64
"""What a producer counts besides."""


@dataclass(frozen=True)
class Cluster:
    """A Kafka cluster.

    Attributes:
        clients: The settings of all clients.
        producer: More of producers.
        consumer: More of consumers.
        topics: Those of the topics that belong to applications.
        timeout: Seconds after which a request is given up.
        patience: Seconds for which a broker that does not answer is waited for.
    """

    clients: Mapping[str, Any]
    producer: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 30.0
    patience: float = 60.0

    @property
    def servers(self) -> str:
        """Where it is."""
        return str(self.clients["bootstrap.servers"])


@dataclass(frozen=True)
class LogLocation:
    """Where a log is.

    Attributes:
        directory: The data directory: the log itself, or what belongs to a cluster's applications on this machine.
        cluster: The cluster, if it is one.
    """

    directory: Path
    cluster: Cluster | None = None

    @property
    def views(self) -> Path:
        """The database with the views of stores."""
        return self.directory / (FILE_NAME if self.cluster is None else "views.db")

    @property
    def patience(self) -> float:
        """Seconds for which a broker that does not answer is waited for."""
        return 0.0 if self.cluster is None else self.cluster.patience

    @property
    def largest(self) -> int | None:
        """How many bytes key, value and headers of a record may have; None if there is no limit."""
        if self.cluster is None:
            return None
        return int(self.cluster.producer.get("message.max.bytes", _LARGEST)) - _OF_A_RECORD

    def __str__(self) -> str:
        return str(self.directory) if self.cluster is None else self.cluster.servers


def log_location(config: Mapping[str, Any], directory: str | os.PathLike[str] | None = None) -> LogLocation:
    """Where the log of a configuration is.

    Args:
        config: A configuration. What it does not say of a cluster, the environment may: see `profiles`.
        directory: The data directory, if not the one of the configuration.
    """
    known = {**Config(from_environment()).explicit, **Config(config).explicit}
    data = data_directory(directory or known.get("state.dir"))
    if known.get("bootstrap.servers") is None:
        return LogLocation(data)
    complete = Config(known)
    topics = {key: str(value) for key, value in _below("topic.", known).items()}
    if complete["replication.factor"] > 0:
        topics["replication.factor"] = str(complete["replication.factor"])
    return LogLocation(
        data,
        Cluster(
            {
                "bootstrap.servers": known["bootstrap.servers"],
                **{key: value for key, value in known.items() if key.startswith(_OF_ALL_CLIENTS) and value is not None},
            },
            _below("producer.", known),
            _below("consumer.", known),
            topics,
            complete["request.timeout.ms"] / _MS,
            complete["default.api.timeout.ms"] / _MS,
        ),
    )


def open_location(place: LogLocation, *, create: bool = True) -> Log:
    """Opens the log at a place.

    Args:
        place: Where it is.
        create: Whether the data directory is made if it is not there, and the embedded log in it.

    Raises:
        LogError: It cannot be opened.
        SetupError: The client for Kafka is not installed.
    """
    if place.cluster is None:
        return embedded.open_log(place.directory, create=create)
    try:
        from millstream.log.kafka import KafkaLog  # noqa: PLC0415  (its client need not be installed)
    except ImportError:
        hint = 'pip install "millstream[kafka]"'
        raise SetupError("for a Kafka cluster, the package confluent-kafka is needed", hint=hint) from None
    if create or place.directory.exists():
        check_directory(place.directory, create=create)
    return KafkaLog(place.cluster, place.directory)


def open_log(
    directory: str | os.PathLike[str] | None = None, *, create: bool = True, config: Mapping[str, Any] | None = None
) -> Log:
    """Opens a log: the embedded one in a data directory, or that of a Kafka cluster.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with open_log(directory) as log:
    ...     topic = log.create_topic("lines", partitions=2)
    ...     [topic.name for topic in log.topics()]
    ['lines']

    Args:
        directory: The data directory; by default ``$MILLSTREAM_DATA``, else ``.millstream`` where the program runs.
        create: Whether the embedded log is made if it is not there.
        config: As that of an application: ``bootstrap.servers`` for a cluster, and what else its clients need.

    Raises:
        LogError: There is no log, or it cannot be used.
    """
    return open_location(log_location(config or {}, directory), create=create)


def _below(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
