"""Describes a topology: as Kafka Streams does, as a Mermaid diagram, or as JSON."""

from __future__ import annotations

from typing import Literal

from millstream.stages.subtopology import Topology

Format = Literal["text", "mermaid", "json"]


def describe(topology: Topology, format: Format = "text") -> str:  # noqa: A002
    """Describes a topology."""
    raise NotImplementedError
