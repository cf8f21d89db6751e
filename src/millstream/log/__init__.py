"""Logs of topics: their interface, and how they are opened."""

from __future__ import annotations

from millstream.log.api import (
    SCHEMA,
    Append,
    Applications,
    Cleanup,
    Fetched,
    Fingerprints,
    Follower,
    Groups,
    Log,
    Offsets,
    Produced,
    ProducerRecord,
    Publication,
    Published,
    Records,
    Removed,
    Scope,
    Stored,
    Topic,
    TopicPartition,
    Topics,
    ViewStorage,
)
from millstream.log.blocks import Block, ColumnBlock
from millstream.log.dead_letter import DeadLetter, DeadLetterFilter, DeadLetterSource, ViolatedContract
from millstream.log.dead_letters import DeadLetters, ReplayResult, dead_letter_topics
from millstream.log.opening import open_log

__all__ = [
    "SCHEMA",
    "Append",
    "Applications",
    "Block",
    "Cleanup",
    "ColumnBlock",
    "DeadLetters",
    "Fetched",
    "Fingerprints",
    "Follower",
    "Groups",
    "DeadLetter",
    "Log",
    "Offsets",
    "Produced",
    "ProducerRecord",
    "Publication",
    "Published",
    "Records",
    "Removed",
    "ReplayResult",
    "Scope",
    "DeadLetterFilter",
    "DeadLetterSource",
    "Stored",
    "Topic",
    "TopicPartition",
    "Topics",
    "ViewStorage",
    "ViolatedContract",
    "dead_letter_topics",
    "open_log",
]
