"""Finds the tags of fields in types, schemas and contracts, and replaces the values of tagged fields."""

from __future__ import annotations

import copy
import enum
import json
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from millstream.errors import TopologyError, suggestion
from millstream.schemas.python_types import TAGS, Tags
from millstream.serde.api import Serde

Replace: TypeAlias = Callable[[Any], Any]
"""Returns the value in place of a text, a number or another value without parts."""

_EVERY = "*"
_SCALARS = (str, bytes, bool, int, float)
_LISTS = (list, tuple, set, frozenset)


class Field:
    """A field, or a whole value, with its parts.

    Attributes:
        tags: Its tags.
        fields: Its fields, by their names in Python.
        items: The items of a list, or the values of a map.
        kind: The type of a value without parts; None if it is not known.
        closed: The fields are all that there are.
    """

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.fields: dict[str, Field] = {}
        self.items: Field | None = None
        self.kind: Any = None
        self.closed = False

    def copy(self) -> Field:
        """Returns a copy with the same parts."""
        field = copy.copy(self)
        field.tags = set(self.tags)
        return field


def fields_of(serde: Serde[Any], tags: Iterable[tuple[str, str]] = ()) -> Field:
    """Returns the fields of the values of a serde, as far as they are known, with the tags of a type or schema.

    Args:
        serde: The serde.
        tags: Further tags: the path of a field, as in ``customer.email``, and a tag.

    Raises:
        TopologyError: The values have no field of such a path.
    """
    schema = getattr(serde, "schema", None)
    if serde.python_type is object and schema is not None and schema.type in {"AVRO", "JSON"}:
        data = json.loads(schema.text)
        root = _Avro().field(data) if schema.type == "AVRO" else _JsonSchema(data).field(data)
    else:
        root = _Types().field(serde.python_type)
    for path, tag in tags:
        _at(root, path).tags.add(tag)
    return root


def tagged_attributes(python_type: Any) -> Iterator[tuple[type, str, list[str]]]:
    """Yields each class in a type, with the names and tags of its tagged fields."""
    types_ = _Types()
    types_.field(python_type)
    for cls, known in types_.known.items():
        for name, field in known.fields.items():
            if field.tags:
                yield cls, name, sorted(field.tags)


def tagged_fields(field: Field, path: str = "", above: tuple[int, ...] = ()) -> Iterator[tuple[str, Field]]:
    """Yields the tagged fields, by path: ``customer.email``, ``items[].sku``."""
    if id(field) in above:
        return
    if field.tags:
        yield path, field
    for name, part in field.fields.items():
        yield from tagged_fields(part, f"{path}.{name}" if path else name, (*above, id(field)))
    if field.items is not None:
        yield from tagged_fields(field.items, f"{path}[]", (*above, id(field)))


def kinds(field: Field, above: tuple[int, ...] = ()) -> set[Any]:
    """Returns the types of the values without parts in a field; None for those that are not known."""
    parts = [*field.fields.values(), *([] if field.items is None else [field.items])]
    if id(field) in above:
        return set()
    return {field.kind}.union(*(kinds(part, (*above, id(field))) for part in parts)) - ({None} if parts else set())


def _at(root: Field, path: str) -> Field:
    """Returns the field of a path; a path passes through lists by itself, and through maps by ``*``.

    The fields of the path become copies: other fields of the same class stay as they are.
    """
    field = root
    for name in path.split("."):
        while field.items is not None and not field.fields and name != _EVERY:
            field.items = field = field.items.copy()
        if name == _EVERY:
            field.items = field = Field() if field.items is None else field.items.copy()
            continue
        if field.closed and name not in field.fields:
            hint = suggestion(name, field.fields) or f"it has: {', '.join(field.fields) or 'none'}"
            raise TopologyError(f"tags: there is no field {name!r} of {path!r}", hint=hint)
        part = field.fields[name].copy() if name in field.fields else Field()
        field.fields = {**field.fields, name: part}
        field = part
    return field


# ----- where tags are found ------------------------------------------------------------------------------------------


class _Types:
    """Finds the fields of Python types."""

    def __init__(self) -> None:
        self.known: dict[Any, Field] = {}

    def field(self, hint: Any) -> Field:
        field = Field()
        self._add(hint, field)
        return field

    def _add(self, hint: Any, field: Field) -> None:
        if hasattr(hint, "__value__"):  # a type alias of Python 3.12
            hint = hint.__value__
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            field.tags.update(name for item in arguments[1:] if isinstance(item, Tags) for name in item.names)
            self._add(arguments[0], field)
        elif origin in {typing.Required, typing.NotRequired}:
            self._add(arguments[0], field)
        elif origin is typing.Union or origin is types.UnionType:
            for member in arguments:
                if member is not type(None):
                    self._add(member, field)
        elif origin is typing.Literal:
            field.kind = enum.Enum
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            field.items = self.field(arguments[1])
        elif isinstance(origin, type) and issubclass(origin, Collection):
            field.items = self.field(arguments[0])
        elif isinstance(origin or hint, type):
            self._add_class(origin or hint, field)

    def _add_class(self, cls: type, field: Field) -> None:
        hints = _hints(cls)
        if hints is None:
            if cls not in {object, dict, *_LISTS}:
                field.kind = cls if field.kind is None else object
            return
        known = self.known.get(cls)
        if known is None:
            known = self.known[cls] = Field()  # before its fields, which may contain it
            known.closed = True
            for name, hint in hints.items():
                known.fields[name] = self.field(hint)
            for name, item in getattr(cls, "model_fields", {}).items():
                found = (tag for part in item.metadata if isinstance(part, Tags) for tag in part.names)
                known.fields[name].tags.update(found)
        field.fields = known.fields if not field.fields else {**field.fields, **known.fields}
        field.closed = True


def _hints(cls: type) -> dict[str, Any] | None:
    """Returns the annotations of the fields of a class; None if it has no fields."""
    if hasattr(cls, "__struct_fields__"):
        names = cls.__struct_fields__
    elif hasattr(cls, "__dataclass_fields__"):
        names = tuple(cls.__dataclass_fields__)
    elif hasattr(cls, "model_fields"):  # of pydantic
        names = tuple(cls.model_fields)
    elif typing.is_typeddict(cls):
        names = tuple(cls.__annotations__)
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = cls._fields
    else:
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        raise TopologyError(
            f"the tags of {cls.__name__} are not known: its annotations cannot be resolved: {error}",
            hint="import the types of its fields in its module, not only for type checkers",
        ) from None
    return {name: hints.get(name, object) for name in names}


class _Avro:
    """Finds the fields of Avro schemas."""

    def __init__(self) -> None:
        self._named: dict[str, Field] = {}

    def field(self, schema: Any) -> Field:
        field = Field()
        self._add(schema, field)
        return field

    def _add(self, schema: Any, field: Field) -> None:
        if isinstance(schema, list):
            for member in schema:
                self._add(member, field)
        elif isinstance(schema, str):
            named = self._named.get(schema.rpartition(".")[2])
            field.kind = {"string": str, "bytes": bytes, "null": field.kind}.get(schema, object)
            if named is not None:
                field.fields, field.closed, field.kind = named.fields, named.closed, named.kind
        elif schema["type"] in {"record", "error"}:
            self._named[schema["name"].rpartition(".")[2]] = field
            field.closed = True
            for part in schema["fields"]:
                found = field.fields[part["name"]] = self.field(part["type"])
                found.tags.update(part.get(TAGS, ()))
        elif schema["type"] == "array":
            field.items = self.field(schema["items"])
        elif schema["type"] == "map":
            field.items = self.field(schema["values"])
        elif "logicalType" in schema or schema["type"] in {"enum", "fixed"}:
            field.kind = object
            if "name" in schema:
                self._named[schema["name"].rpartition(".")[2]] = field
        else:
            self._add(schema["type"], field)


class _JsonSchema:
    """Finds the fields of JSON Schemas."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, Field] = {}

    def field(self, schema: Any) -> Field:
        field = Field()
        self._add(schema, field)
        return field

    def _add(self, schema: Any, field: Field) -> None:
        if not isinstance(schema, dict):
            return
        field.tags.update(schema.get(TAGS, ()))
        reference = schema.get("$ref", "")
        if reference.startswith("#"):
            self._refer(reference, field)
        for part in (member for word in ("anyOf", "oneOf", "allOf") for member in schema.get(word, ())):
            self._add(part, field)
        for name, part in schema.get("properties", {}).items():
            field.fields[name] = self.field(part)
        items = schema.get("items", schema.get("additionalProperties"))
        if isinstance(items, dict):
            field.items = self.field(items)
        if isinstance(schema.get("type"), str) and schema["type"] not in {"object", "array", "null"}:
            field.kind = str if schema["type"] == "string" and "enum" not in schema else object

    def _refer(self, reference: str, field: Field) -> None:
        if reference not in self._known:
            target: Any = self._root
            for name in reference.removeprefix("#").strip("/").split("/"):
                target = target.get(name, {}) if name and isinstance(target, dict) else target
            known = self._known[reference] = Field()
            self._add(target, known)
        known = self._known[reference]
        field.tags |= known.tags
        field.fields, field.items, field.kind = known.fields, known.items, known.kind


# ----- replaced values -----------------------------------------------------------------------------------------------


def replacing(root: Field, replacements: Mapping[str, Replace]) -> Replace | None:
    """Returns the function that replaces the values of fields with certain tags; None if there is no such field.

    A list, a map or a record with such a tag keeps its form: the values in it are replaced. Null stays null. The
    function returns a copy, and leaves its argument as it is.
    """
    if not any(field.tags & replacements.keys() for _path, field in tagged_fields(root)):
        return None
    return lambda value: _replaced(root, value, replacements)


def _replaced(field: Field, value: Any, replacements: Mapping[str, Replace]) -> Any:
    if value is None:
        return None
    for tag in sorted(field.tags):
        if tag in replacements:
            return _all_replaced(value, replacements[tag])
    if isinstance(value, Mapping):
        return {name: _part(field, name, part, replacements) for name, part in value.items()}
    if _has_items(value):
        item = field.items or field
        return type(value)(_replaced(item, part, replacements) for part in value)
    if not field.fields:
        return value
    changes = {}
    for name, part in field.fields.items():
        before = getattr(value, name, None)
        after = _replaced(part, before, replacements)
        if after is not before:
            changes[name] = after
    return _changed(value, changes) if changes else value


def _part(field: Field, name: Any, value: Any, replacements: Mapping[str, Replace]) -> Any:
    part = field.fields.get(name, field.items)
    return value if part is None else _replaced(part, value, replacements)


def _has_items(value: Any) -> bool:
    return isinstance(value, _LISTS) and not hasattr(value, "_fields")


def _all_replaced(value: Any, replace: Replace) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: _all_replaced(part, replace) for name, part in value.items()}
    if _has_items(value):
        return type(value)(_all_replaced(part, replace) for part in value)
    names = None if isinstance(value, _SCALARS) else _hints(type(value))
    if names is None:
        return replace(value)
    return _changed(value, {name: _all_replaced(getattr(value, name), replace) for name in names})


def _changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """Returns a copy of a record with some fields changed. The class does not check the new values."""
    if hasattr(value, "_replace"):
        return value._replace(**changes)
    if hasattr(value, "model_copy"):  # of pydantic
        return value.model_copy(update=changes)
    changed = copy.copy(value)
    if hasattr(value, "__struct_fields__"):
        from msgspec.structs import force_setattr

        for name, part in changes.items():
            force_setattr(changed, name, part)
    elif hasattr(value, "__dataclass_fields__"):
        for name, part in changes.items():
            object.__setattr__(changed, name, part)
    else:
        raise TypeError(f"a {type(value).__name__} has no fields that can be replaced")
    return changed
