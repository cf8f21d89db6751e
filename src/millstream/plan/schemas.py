"""The schemas of keys and values that a store or a topic contains, and whether a new topology can use its data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from millstream.core.frozen import fields
from millstream.errors import InvalidSchemaError
from millstream.plan.node import Node
from millstream.plan.process import SerdeUser
from millstream.registry.formats import format_of
from millstream.registry.formats.problems import Sides
from millstream.schemas.recorded import plain_schemas
from millstream.serde import Serde

_SIDES = Sides(reader="the new schema", writer="the former schema")
_MOST = 5

KEYS = ("key", "left_key", "right_key")
"""The fields of nodes that are serdes of keys."""

_OF_BYTES = frozenset(
    {"type", "name", "namespace", "fields", "symbols", "items", "values", "size", "logicalType", "precision", "scale"}
)

FORMER_SCHEMA = "give the serde of the keys its former schema, which also reads keys of later versions"
"""How to go on if keys have another schema."""


def schemas_of(item: Any) -> dict[str, Any]:
    """Returns the schemas of the keys and values of a store, or of a topic, as plain data: see `plain_schemas`."""
    schemas = {f"{part}_schemas": plain_schemas(getattr(item, part)) for part in ("key", "value")}
    return {name: each for name, each in schemas.items() if each}


def written_keys(node: Node) -> Iterator[Serde[Any]]:
    """Yields the serdes with which a node writes keys, to a topic or into rows that have the bytes of keys."""
    if node.role in {"source", "global"}:
        return
    for field in fields(node):
        value = getattr(node, field)
        if isinstance(value, SerdeUser):
            yield value.key
        elif field in KEYS and isinstance(value, Serde):
            yield value


def written_key_schemas(node: Node) -> dict[str, Any]:
    """Returns the schemas of the keys that a node writes, as plain data."""
    schemas = [schema for serde in written_keys(node) for schema in plain_schemas(serde)]
    return {"key_schemas": schemas} if schemas else {}


def schema_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], part: str, whose: str = "its"
) -> Iterator[tuple[bool, str]]:
    """Yields how schemas of keys or values changed: whether the data from before cannot be used, and the change.

    Args:
        before: The plain data of the former store or topic.
        after: That of the new one.
        part: ``key`` or ``value``.
        whose: The owner of the keys or values, for messages.
    """
    judge = _keys if part == "key" else _values
    for was, now in zip(before.get(f"{part}_schemas", ()), after.get(f"{part}_schemas", ()), strict=False):
        if was["type"] == now["type"]:
            yield from judge(was, now, f"{whose} {part}s")


def key_schema_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether keys would be written with another schema."""
    return any(schema_changes(before, after, "key"))


def _keys(was: Mapping[str, Any], now: Mapping[str, Any], keys: str) -> Iterator[tuple[bool, str]]:
    """Yields a changed schema of keys. Another schema, or another id, changes the bytes of a key."""
    if was.get("bare") or now.get("bare"):
        if not _same_form(was, now):
            yield True, f"the schema of {keys} changed, and so may their bytes"
        return
    old, new = was.get("id"), now.get("id")
    if old is None or old == new:
        return
    subject = now.get("subject", was.get("subject"))
    named = f"id {new}" if new is not None else "an id that the registry has not given yet: the schema is new"
    yield True, f"the schema of {keys} (subject {subject}) had id {old}, and now has {named}"


def _values(was: Mapping[str, Any], now: Mapping[str, Any], values: str) -> Iterator[tuple[bool, str]]:
    if bool(was.get("bare")) != bool(now.get("bare")):
        words = {False: "the id of their schema", True: "no id of a schema"}
        old, new = words[bool(was.get("bare"))], words[bool(now.get("bare"))]
        yield True, f"{values} had {old}, and now have {new}"
        return
    if "versions" not in now:
        return
    if was.get("bare") and was["type"] == "AVRO":
        if not _same_form(was, now):
            yield True, f"the schema of {values} changed, and Avro without a registry reads only what this schema wrote"
        return
    *earlier, own = now["versions"]
    former = [version for version in was.get("versions", ()) if version not in earlier]
    problems = dict.fromkeys(
        problem for version in (*earlier, *former) for problem in _problems(now["type"], own, version)
    )
    shown = list(problems)[:_MOST]
    yield from ((True, f"the schema of {values} changed: {problem}") for problem in shown)
    if not problems and not _same_form(was, now):
        yield False, f"the schema of {values} changed; data from before is read with the new one"


def _same_form(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the last schemas of both are the same, but for their form."""
    if "versions" not in was or "versions" not in now:
        return "versions" not in was and "versions" not in now
    old, new = was["versions"][-1], now["versions"][-1]
    if old == new:
        return True
    try:
        normal = [_normal(now["type"], version) for version in (old, new)]
    except InvalidSchemaError:
        return False
    return bool(normal[0] == normal[1]) and old.get("references") == new.get("references")


def _normal(type: str, version: Mapping[str, Any]) -> Any:
    """Returns the normal form of a schema; of Avro only what determines the bytes."""
    normal = format_of(type).normal(_parsed(type, version))
    return _of_bytes(json.loads(normal)) if type == "AVRO" else normal


def _of_bytes(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _of_bytes(part) for name, part in node.items() if name in _OF_BYTES}
    return [_of_bytes(part) for part in node] if isinstance(node, list) else node


def _problems(type: str, reader: Mapping[str, Any], writer: Mapping[str, Any]) -> list[str]:
    if reader == writer:
        return []
    try:
        parsed = [_parsed(type, version) for version in (reader, writer)]
    except InvalidSchemaError as error:
        return [f"it cannot be compared: {error.message}"]
    return [str(finding) for finding in format_of(type).compare(parsed[0], parsed[1], _SIDES)]


def _parsed(type: str, version: Mapping[str, Any]) -> Any:
    references = [(name, text) for name, text in version.get("references", ())]
    return format_of(type).parse(version["text"], references)
