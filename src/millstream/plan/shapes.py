"""The shapes of typed keys and values: their fields as plain data, to detect a changed type."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from millstream.expr import ANY, schema_of
from millstream.expr.schema import field_names
from millstream.serde import Serde

Shape: TypeAlias = Any
"""A type's text, or ``{"fields": {name: shape}, "optional": [name]}``, ``{"list": shape}``, ``{"map": shape}``."""


def shape_of(serde: Serde[Any]) -> Shape | None:
    """Returns the shape of a serde's values, if they have fields; None if the serde's name describes them completely.

    The shape does not contain the name of a class: renaming a class changes no data.

    >>> from dataclasses import dataclass
    >>> from millstream.serde import serde_for
    >>> @dataclass
    ... class Order:
    ...     id: str
    ...     quantity: int = 1
    >>> shape_of(serde_for(Order))
    {'fields': {'id': 'STRING', 'quantity': 'BIGINT'}, 'optional': ['quantity']}
    """
    shape = _shape(serde.python_type, ())
    return shape if isinstance(shape, dict) else None


def _shape(hint: Any, inside: tuple[Any, ...]) -> Shape:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _shape(arguments[0], inside)
    if origin is typing.Union or origin is types.UnionType:
        alternatives = [argument for argument in arguments if argument is not type(None)]
        return _shape(alternatives[0], inside) if len(alternatives) == 1 else "ANY"
    if origin in {list, tuple, set, frozenset} and arguments:
        return _container("list", arguments[0], inside)
    if origin is dict:
        return _container("map", arguments[1], inside)
    cls = origin or hint
    names = field_names(cls) if isinstance(cls, type) else None
    if names is None:
        return str(schema_of(hint))
    if cls in inside:
        return "RECURSIVE"
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError):  # an annotation that only a type checker can resolve
        return str(ANY)
    fields = {name: _shape(hints.get(name, Any), (*inside, cls)) for name in names}
    optional = [name for name in names if name in _optional(cls)]
    # JSON represents a NamedTuple as an array, in which the position identifies a field.
    order = {"order": list(names)} if issubclass(cls, tuple) else {}
    return {"fields": fields, **({"optional": optional} if optional else {}), **order}


def _container(kind: str, element: Any, inside: tuple[Any, ...]) -> Shape:
    shape = _shape(element, inside)
    return {kind: shape} if isinstance(shape, dict) else f"{kind.upper()}<{shape}>"


def _optional(cls: Any) -> set[str]:
    """Returns the fields that data may lack: those with a default."""
    if typing.is_typeddict(cls):
        return set(cls.__optional_keys__)
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses  # noqa: PLC0415  (for a short import time of Millstream)

        missing = dataclasses.MISSING
        return {f.name for f in dataclasses.fields(cls) if not f.default is f.default_factory is missing}
    if hasattr(cls, "__struct_fields__"):
        import msgspec  # noqa: PLC0415  (already loaded: the class is a msgspec Struct)

        return {field.name for field in msgspec.structs.fields(cls) if not field.required}
    if hasattr(cls, "model_fields"):  # pydantic
        return {name for name, field in cls.model_fields.items() if not field.is_required()}
    return set(getattr(cls, "_field_defaults", ()))


def differences(before: Shape, after: Shape, path: str = "") -> Iterator[tuple[bool, str]]:
    """Yields the differences between two shapes: whether old data loses its meaning, and the difference in words.

    A new field with a default is harmless: old data gets the default.
    """
    if (
        isinstance(before, Mapping)
        and isinstance(after, Mapping)
        and before.keys() - _HARMLESS == after.keys() - _HARMLESS
    ):
        for part in ("list", "map"):
            if part in before:
                yield from differences(before[part], after[part], f"{path}[]")
        if "fields" in before:
            yield from _fields(before, after, path)
    elif before != after:
        yield True, f"{path or 'it'} was {_text(before)}, and is now {_text(after)}"


_HARMLESS = frozenset({"optional"})


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[tuple[bool, str]]:
    was, now = before["fields"], after["fields"]
    if "order" in before and after["order"][: len(was)] != before["order"]:
        yield True, f"the fields {'of ' + path if path else ''} have another order".replace("  ", " ")
        return
    for name in [*was, *(name for name in now if name not in was)]:
        where = f"{path}.{name}" if path else name
        if name not in now:
            yield True, f"the field {where} is gone"
        elif name in was:
            yield from differences(was[name], now[name], where)
        elif name in after.get("optional", ()):
            yield False, f"the field {where} is new: rows from before get its default"
        else:
            yield True, f"the field {where} is new, and has no default"


def _text(shape: Shape) -> str:
    if not isinstance(shape, Mapping):
        return str(shape)
    if "fields" in shape:
        return f"a record of {', '.join(shape['fields'])}"
    return "a list" if "list" in shape else "a map"
