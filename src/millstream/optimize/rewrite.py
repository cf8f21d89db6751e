"""Rebuilds a plan with some of its nodes replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.frozen import fields, replace
from millstream.plan.node import Node, Plan


def rewrite(plan: Plan, change: Callable[[Node], Node]) -> Plan:
    """Returns the plan with nodes replaced, and with all references between nodes updated.

    Args:
        plan: The plan.
        change: Returns the replacement of a node, whose references are already updated; the node itself if it stays.
    """
    new: dict[Node, Node] = {}
    for node in plan.nodes:
        new[node] = change(with_references(node, new))
    return plan.with_nodes(tuple(dict.fromkeys(new.values())))


def with_references(node: Node, new: dict[Node, Node]) -> Node:
    """Returns the node with its references to other nodes replaced."""
    changed: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field)
        if isinstance(value, Node) and new.get(value, value) is not value:
            changed[field] = new[value]
        elif isinstance(value, tuple) and any(isinstance(v, Node) and new.get(v, v) is not v for v in value):
            changed[field] = tuple(new.get(v, v) for v in value)
    return replace(node, **changed) if changed else node
