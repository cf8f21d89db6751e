"""Opens the log of a Kafka cluster by its settings alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from millstream.log.kafka import KafkaLog
from millstream.log.opening import Cluster


def settle(log: KafkaLog) -> None:
    """Waits until all transactions are visible: publications of workers return before they are."""
    names = [topic.name for topic in log.topics()]
    deadline = time.monotonic() + 30
    while log.ends(names) != log.ends(names, committed=False):
        assert time.monotonic() < deadline, "a transaction is still open"
        time.sleep(0.005)


def open_kafka_log(settings: dict[str, Any], directory: Path, timeout: float = 30.0) -> KafkaLog:
    return KafkaLog(Cluster(settings, timeout=timeout), directory)
