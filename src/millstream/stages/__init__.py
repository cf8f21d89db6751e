"""Stages: the sub-topologies of a plan, cut at repartition topics."""

from __future__ import annotations

from millstream.stages.subtopology import SubTopology, Topology, cut

__all__ = ["SubTopology", "Topology", "cut"]
