"""Stages: the sub-topologies of a plan, cut where the key changes."""

from __future__ import annotations

from millstream.stages.subtopology import SubTopology, Topology, cut

__all__ = ["SubTopology", "Topology", "cut"]
