"""The tagged fields of keys and values, as a tree, and how they are hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "[hidden]"
"""The value of a personal field in an answer to a viewer."""

PERSONAL = frozenset({"pii", "personal", "sensitive", "secret"})
"""The tags of fields that viewers do not see, in lower case."""

_ITEMS = "[]"


class TaggedFields:
    """The tagged fields of a value. Names are compared without case and underscores: `lastName` and `LAST_NAME`."""

    def __init__(self) -> None:
        self.is_tagged = False
        self.parts: dict[str, TaggedFields] = {}

    def __bool__(self) -> bool:
        return self.is_tagged or bool(self.parts)

    @classmethod
    def of(cls, tags: Iterable[tuple[str, Iterable[str]]]) -> TaggedFields:
        """The fields of paths such as ``customer.mail`` and ``items[].sku``, with their tags."""
        root = cls()
        for path, names in tags:
            if PERSONAL.isdisjoint(name.lower() for name in names):
                continue
            field = root
            for name in path.replace(_ITEMS, f".{_ITEMS}").split("."):
                if name:
                    field = field.parts.setdefault(plain_name(name), cls())
            field.is_tagged = True
        return root

    def add(self, other: TaggedFields) -> bool:
        """Adds the fields of another tree; returns whether it had one that was not known."""
        is_new = other.is_tagged and not self.is_tagged
        self.is_tagged = self.is_tagged or other.is_tagged
        for name, part in other.parts.items():
            is_new = self.parts.setdefault(name, TaggedFields()).add(part) or is_new
        return is_new

    def names(self) -> set[str]:
        """The last names of the tagged fields."""
        own = {name for name, part in self.parts.items() if part.is_tagged and name != _ITEMS}
        return own.union(*(part.names() for part in self.parts.values()))

    def hide(self, value: Any, names: frozenset[str]) -> Any:
        """Returns a JSON value with the tagged fields hidden, and those with certain names. Null stays null."""
        if value is None:
            return None
        if self.is_tagged:
            return HIDDEN
        if isinstance(value, dict):
            return {name: self._hide_field(plain_name(name), part, names) for name, part in value.items()}
        if isinstance(value, list):
            items = self.parts.get(_ITEMS, self)
            return [items.hide(part, names) for part in value]
        # A value without parts where fields are expected: a record as a list of its fields, for example.
        return HIDDEN if self.parts else value

    def _hide_field(self, name: str, value: Any, names: frozenset[str]) -> Any:
        if name in names:
            return None if value is None else HIDDEN
        part = self.parts.get(name) or self.parts.get(_ITEMS) or _NOTHING
        return part.hide(value, names) if part or names else value


_NOTHING = TaggedFields()


def tagged_fields(schema: Mapping[str, Any] | None) -> TaggedFields:
    """The tagged fields of a described schema."""
    fields = TaggedFields()
    if schema is None:
        return fields
    if not PERSONAL.isdisjoint(str(tag).lower() for tag in schema.get("tags", ())):
        fields.is_tagged = True
    for part in schema.get("fields", ()):
        below = tagged_fields(part)
        if below:
            fields.parts.setdefault(plain_name(part["name"]), TaggedFields()).add(below)
    if schema.get("items") is not None and (below := tagged_fields(schema["items"])):
        fields.parts.setdefault(_ITEMS, TaggedFields()).add(below)
    if schema.get("key") is not None and (below := tagged_fields(schema["key"])):  # a key with a window
        fields.parts.setdefault("key", TaggedFields()).add(below)
    return fields


def plain_name(name: str) -> str:
    """A name as it is compared with others."""
    return name if name == _ITEMS else name.replace("_", "").casefold()
