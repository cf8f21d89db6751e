"""The log of a Kafka cluster."""

from __future__ import annotations

from millstream.log.kafka.log import KafkaLog

__all__ = ["KafkaLog"]
