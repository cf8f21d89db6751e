"""Binds the serdes of a plan to the topics of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.frozen import fields, replace
from millstream.optimize.rewrite import rewrite
from millstream.plan.node import Node, Plan
from millstream.plan.process import SerdeUser
from millstream.plan.schemas import KEYS
from millstream.plan.sources import Source, ToTable
from millstream.plan.stateless import Repartition
from millstream.serde import Serde, SerdeContext
from millstream.state.spec import StoreSpec


def bind_serdes(plan: Plan, registry: Any = None, recorded: Mapping[str, Any] | None = None) -> Plan:
    """Returns the plan with each serde bound to the topic for which the application uses it.

    A serde is bound once for each source, sink, repartition topic and store. Stores bind to their changelog topics, so
    that a serde with a schema registers it under a subject of the store. A plan whose serdes do not depend on topics
    is returned as it is.

    Args:
        plan: The plan, optimised: the optimizer decides which topics are changelogs.
        registry: The schema registry of the application. Without one, bound serdes keep theirs.
        recorded: What the state of the application records of schemas, by subject; without it, serdes keep what they
            have.
    """
    context = SerdeContext(None, is_key=False, registry=registry, recorded=recorded)
    bound = rewrite(plan, lambda node: _bound(node, plan.application_id, context))
    return plan if all(new is old for new, old in zip(bound.nodes, plan.nodes, strict=True)) else bound


def _bound(node: Node, application_id: str, context: SerdeContext) -> Node:
    topic = _topic(node, application_id)
    changes: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field)
        if isinstance(value, Serde):
            # The two sides of a join by foreign key have schemas of their own.
            side = next((f"-{side}" for side in ("left", "right") if field.startswith(f"{side}_")), "")
            own = None if topic is None else f"{topic}{side}"
            changes[field] = value.bind(context._replace(topic=own, is_key=field in KEYS))
        elif isinstance(value, StoreSpec):
            changes[field] = _bound_store(value, context._replace(topic=_changelog(node, value, application_id)))
        elif isinstance(value, SerdeUser):
            changes[field] = value.bind_key(context._replace(topic=topic, is_key=True))
    changes = {field: value for field, value in changes.items() if value is not getattr(node, field)}
    return replace(node, **changes) if changes else node


def _bound_store(spec: StoreSpec, context: SerdeContext) -> StoreSpec:
    key = spec.key.bind(context._replace(is_key=True))
    value = spec.value.bind(context)
    return spec if key is spec.key and value is spec.value else replace(spec, key=key, value=value)


def _topic(node: Node, application_id: str) -> str | None:
    """The topic of the serdes of a node: the one that it reads or writes, else a name of its own."""
    if isinstance(node, Source) or node.role in {"sink", "global"}:
        return node.topics[0] if len(node.topics) == 1 else None
    if isinstance(node, Repartition):
        return f"{application_id}-{node.topics[0]}"
    return f"{application_id}-{node.stores[0].name}-changelog" if node.stores else f"{application_id}-{node.name}"


def _changelog(node: Node, spec: StoreSpec, application_id: str) -> str:
    if isinstance(node, ToTable) and node.reuse_source and node.source_topic is not None:
        return node.source_topic
    return node.topics[0] if node.role == "global" else f"{application_id}-{spec.name}-changelog"
