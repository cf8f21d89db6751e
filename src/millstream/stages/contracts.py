"""Describes the contracts of a topology, and the tags of the fields of its topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.errors import TopologyError
from millstream.plan.contracts import contract_of
from millstream.plan.node import Node, Plan

_OF_TOPICS = frozenset({"source", "sink", "global"})


def contract_text(plan: Plan) -> str:
    """Returns the contracts and tags as text; empty if there are none."""
    lines = [line for node in plan.nodes for line in _lines(node)]
    return "".join(f"{line}\n" for line in ("Contracts:", *lines)) if lines else ""


def _lines(node: Node) -> Iterator[str]:
    contract, tags = contract_of(node), tags_of(node)
    if contract is not None:
        yield f"  {node.name}: contract {contract.name} (on violation: {contract.on_violation})"
        for rule in contract.rules:
            own = "" if rule.on_violation == contract.on_violation else f" (on violation: {rule.on_violation})"
            yield f"    rule: {rule.name}{own}"
        for mask in contract.masks:
            yield f"    mask: {mask.tag} with {'a constant' if mask.key is None else f'HMAC, key {mask.key}'}"
    elif tags:
        yield f"  {node.name}"
    for field, names in tags.items():
        yield f"    field {field or '(the value)'}: {', '.join(names)}"


def contract_data(node: Node) -> dict[str, Any]:
    """Returns the contract of an operator and the tags of its fields, for the description as JSON."""
    contract, tags = contract_of(node), tags_of(node)
    found = {} if contract is None else {"contract": contract.plain()}
    return {**found, "tags": tags} if tags else found


def tags_of(node: Node) -> dict[str, list[str]]:
    """Returns the tags of the fields of a topic, by path, as far as its type, its schema or its contract has them."""
    from millstream.schemas.tags import fields_of, tagged_fields  # noqa: PLC0415  (only descriptions need it)

    if node.role not in _OF_TOPICS:
        return {}
    contract = contract_of(node)
    try:
        fields = fields_of(node.value, () if contract is None else contract.tags)  # type: ignore[attr-defined]
    except TopologyError:  # annotations of its type cannot be resolved
        return {}
    return {path: sorted(field.tags) for path, field in tagged_fields(fields)}
