"""Values of keys in an order that does not depend on their producer, so that equal keys have equal bytes."""

from __future__ import annotations

from typing import Any


def sorted_dicts(value: Any) -> Any:
    """Returns a value whose dicts are in the order of their keys."""
    if isinstance(value, dict):
        return {key: sorted_dicts(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_dicts(item) for item in value]
    return tuple(map(sorted_dicts, value)) if type(value) is tuple else value


def in_order_of(schema: Any, value: Any) -> Any:
    """Returns a JSON value whose properties are in the order of a JSON Schema; others follow in alphabetical order.

    >>> in_order_of({"properties": {"shop": {}, "id": {}}}, {"z": 1, "id": 7, "shop": "s", "a": 2})
    {'shop': 's', 'id': 7, 'a': 2, 'z': 1}
    """
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, list):
        items = schema.get("items")
        return [in_order_of(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    declared = schema.get("properties")
    properties = declared if isinstance(declared, dict) else {}
    names = [name for name in properties if name in value]
    names += sorted(value.keys() - properties.keys())
    return {name: in_order_of(properties.get(name), value[name]) for name in names}
