"""The log of a Kafka cluster."""

from __future__ import annotations

from millstream.log.kafka.log import KafkaLog, open_kafka_log

__all__ = ["KafkaLog", "open_kafka_log"]
