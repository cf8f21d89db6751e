"""Logs of topics: what they can do, and how they are opened."""

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
from millstream.log.dead_letters import DeadLetters, Replay, dead_letter_topics
from millstream.log.letters import Letter, Selection, Source
from millstream.log.opening import open_log

__all__ = [
    "SCHEMA",
    "Append",
    "Block",
    "DeadLetters",
    "Fingerprints",
    "Letter",
    "Log",
    "Offsets",
    "Produced",
    "ProducerRecord",
    "Publication",
    "Published",
    "Removed",
    "Replay",
    "Selection",
    "Source",
    "Stored",
    "Topic",
    "TopicPartition",
    "dead_letter_topics",
    "open_log",
]
