"""The end of a batch: the offsets it reads to, and every input of its replay that the log does not contain.

Spark writes it to the offset log of the checkpoint before the batch runs. A batch that is run again after a failure
reads the same records and sees the same time.
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import msgspec

from millstream.errors import SetupError
from millstream.plan.side import BEGIN_AGAIN
from millstream.runtime.order.batch_order import NO_ORDER, BatchOrder
from millstream.runtime.order.positions import Position

VERSION = 3
"""Version of the stored form. Raise it with every change of the fields of `BatchEnd`."""

TopicOffsets: TypeAlias = dict[str, list[int]]
"""Offsets by topic, one for each partition."""


class BatchEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a batch, which is the start of the next one.

    Attributes:
        offsets: First offset that the batch does not read, by topic and partition.
        has_more: Whether a partition had records behind that offset when the batch was planned. Topics without such a
            partition are left out.
        time: Batch time in milliseconds. `now()`, wall-clock timestamps and punctuators see this time.
        global_ends: End offsets up to which global tables, and changelogs of stores that are rebuilt, are read before
            other topics.
        global_epochs: Epoch of the application since which it reads each global table. A table that was removed from
            the topology and added again has another epoch, and is read from its start.
        tasks: Tasks that run in the batch even without input; None for all tasks.
        bounds: (topic, partition, position): least order position of the unread records of the partitions that the
            batch reads, before the batch.
        input_topics: The input topics of the application, in the order in which it began to read them. The index of a
            topic is part of the order positions of its records.
        order: How far tasks go in the batch.
        new_topics: Start offsets of topics and partitions that the previous batch did not have.
        version: `VERSION` of the program that wrote it.
    """

    offsets: TopicOffsets
    has_more: dict[str, list[bool]] = {}
    time: int = 0
    global_ends: TopicOffsets = {}
    global_epochs: dict[str, int] = {}
    tasks: list[int] | None = None
    bounds: list[tuple[str, int, Position]] = []
    input_topics: list[str] = []
    order: BatchOrder = NO_ORDER
    new_topics: TopicOffsets = {}
    version: int = VERSION

    def to_plain(self) -> dict[str, Any]:
        """Returns the form of `to_json` as dicts and lists."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Reads the form of `to_plain`.

        Raises:
            SetupError: Another version of Millstream wrote it.
        """
        if plain.get("version") != VERSION:
            raise SetupError(
                f"the checkpoint was written by another version of Millstream (format {plain.get('version')} of a "
                f"batch, not {VERSION})",
                hint=f"run the application with that version; or {BEGIN_AGAIN}",
            )
        return msgspec.convert(plain, cls)

    def to_json(self) -> str:
        """Returns the form that the offset log contains."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Reads the form of `to_json`.

        Raises:
            SetupError: Another version of Millstream wrote it.
        """
        return cls.from_plain(msgspec.json.decode(text))
