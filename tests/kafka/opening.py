"""Opens the log of a Kafka cluster by its settings alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millstream.log.kafka import KafkaLog
from millstream.log.opening import Cluster


def open_kafka_log(settings: dict[str, Any], directory: Path, timeout: float = 30.0) -> KafkaLog:
    return KafkaLog(Cluster(settings, timeout=timeout), directory)
