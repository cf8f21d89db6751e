"""The optimizer: a list of rules, each a function from plan to plan, named and enabled as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millstream.optimize.merge_repartitions import merge_repartitions
from millstream.optimize.reuse_source_topics import reuse_source_topics
from millstream.optimize.share_self_join_store import share_self_join_store
from millstream.plan.node import Plan

RULES: dict[str, Callable[[Plan], Plan]] = {
    "reuse.ktable.source.topics": reuse_source_topics,
    "merge.repartition.topics": merge_repartitions,
    "single.store.self.join": share_self_join_store,
}
"""The rules, in the order in which they are applied, by their names in ``topology.optimization``."""


def optimize(plan: Plan, names: Iterable[str]) -> Plan:
    """Applies the named rules, in the order of `RULES`."""
    enabled = set(names)
    for name, rule in RULES.items():
        if name in enabled:
            plan = rule(plan)
    return plan
