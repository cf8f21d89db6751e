"""Logs of topics: what they can do, and the embedded one."""

from __future__ import annotations

from millstream.log.api import (
    SCHEMA,
    Append,
    Fingerprints,
    Log,
    Offsets,
    Produced,
    ProducerRecord,
    Publication,
    Published,
    Removed,
    Stored,
    Topic,
    TopicPartition,
)
from millstream.log.blocks import Block
from millstream.log.embedded import open_log

__all__ = [
    "SCHEMA",
    "Append",
    "Block",
    "Fingerprints",
    "Log",
    "Offsets",
    "Produced",
    "ProducerRecord",
    "Publication",
    "Published",
    "Removed",
    "Stored",
    "Topic",
    "TopicPartition",
    "open_log",
]
