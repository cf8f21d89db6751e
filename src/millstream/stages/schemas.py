"""Describes the schemas of the edges of a topology: the keys and values that each operator sends, or writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.expr.description import Description
from millstream.plan.edges import description_of
from millstream.plan.node import Node, Plan
from millstream.serde import Serde
from millstream.serde.windowed import window_bytes

_MOST_FIELDS = 12
_LONGEST = 240


def serdes_on(node: Node, plan: Plan) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    """Returns the serdes of the keys and values that a node reads from a topic, writes to one, or sends."""
    if node.role == "processor":
        return plan.edges.get(node.name, (None, None))
    key, value = getattr(node, "key", None), getattr(node, "value", None)
    return (key if isinstance(key, Serde) else None), (value if isinstance(value, Serde) else None)


def schema_data(serde: Serde[Any] | None, *, has_subject: bool = True) -> dict[str, Any] | None:
    """Returns the schema of the values of a serde as plain data; None if not even the serde is known.

    ``serde`` is its name, ``format`` the type of its schema (AVRO, JSON or PROTOBUF) and ``subject`` the name under
    which a registry has it, each null if there is none. ``type`` is the type as expressions see it, null if it is not
    known; then ``nullable``, and where they are known ``name``, ``doc``, ``tags``, ``fields`` and ``items``. A key
    with a window has ``key``, the schema of the key without it.

    Args:
        serde: The serde.
        has_subject: The values are those of a topic, under whose name a registry may have the schema.
    """
    if serde is None:
        return None
    described = description_of(serde)
    known = {"type": None} if described is None else described.plain()
    has_window = window_bytes(serde) > 0
    return {
        "serde": serde.name,
        "format": getattr(serde, "type", None),
        "subject": getattr(serde, "known_subject", None) if has_subject else None,
        **known,
        **({"key": schema_data(serde.inner_serdes[0], has_subject=False)} if has_window else {}),
    }


def schema_text(edges: Iterable[tuple[str, Node]], plan: Plan) -> str:
    """Returns one line for each edge; empty if no key and no value has fields.

    Args:
        edges: The names of elements, each with its node.
        plan: The plan.
    """
    lines, has_fields = [], False
    for name, node in edges:
        serdes = serdes_on(node, plan)
        if node.edge == "none" and node.role == "processor":
            continue  # it sends nothing
        # The fields of a windowed key are the same in every application, and are not shown.
        described = [None if serde is None or serde.inner_serdes else description_of(serde) for serde in serdes]
        has_fields = has_fields or any(each is not None and each.fields for each in described)
        texts = [_text(serde, each) for serde, each in zip(serdes, described, strict=True)]
        lines.append(_bounded(f"   {name}: key {texts[0]}, value {texts[1]}"))
    return "".join(f"{line}\n" for line in ("Schemas:", *lines)) if has_fields else ""


def _text(serde: Serde[Any] | None, described: Description | None) -> str:
    if serde is None:
        return "?"
    if described is None or not described.fields:
        return serde.name
    shown = [f"{name} {_type(part)}" for name, part in described.fields[:_MOST_FIELDS]]
    more = len(described.fields) - _MOST_FIELDS
    fields = ", ".join(shown) + (f", … {more} more" if more > 0 else "")
    return f"{serde.name} {described.name or ''}({fields})"


def _type(part: Description) -> str:
    tags = "".join(f" #{tag}" for tag in part.tags)
    text = part.name if part.fields and part.name else str(part.type)
    return f"{text}{' NULL' if part.nullable else ''}{tags}"


def _bounded(line: str) -> str:
    plain = " ".join(line.split()) if "\n" in line else line
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
