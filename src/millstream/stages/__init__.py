"""Stages: the sub-topologies of a plan, cut where the key changes."""

from __future__ import annotations

from millstream.stages.subtopology import (
    SubTopology,
    Topology,
    changelog_topic,
    cut,
    output_topics,
    repartition_topic,
)

__all__ = ["SubTopology", "Topology", "changelog_topic", "cut", "output_topics", "repartition_topic"]
