"""Looks up the serde for the argument of an operator: ``value=int``, ``key="string"``."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Collection
from typing import Any, NewType, Union

from millstream.core.records import Windowed
from millstream.errors import ConfigError, suggestion
from millstream.serde.api import Serde
from millstream.serde.json_serde import JSON, JsonSerde, json_of, type_text
from millstream.serde.primitives import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    UUID,
    VOID,
)

BY_NAME: dict[str, Serde[Any]] = {
    "string": STRING,
    "long": LONG,
    "int": INT,
    "integer": INT,
    "short": SHORT,
    "float": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "bytes": BYTES,
    "uuid": UUID,
    "json": JSON,
    "void": VOID,
}
"""Serdes by their Kafka names: "int" and "float" have 4 bytes, unlike the Python types."""

_BY_TYPE: dict[object, Serde[Any]] = {
    str: STRING,
    int: LONG,
    float: DOUBLE,
    bool: BOOLEAN,
    bytes: BYTES,
    None: VOID,
    type(None): VOID,
    object: JSON,
    Any: JSON,
}

_UNIONS = (Union, types.UnionType)
_CONTAINERS = (dict, list, tuple, set, frozenset)
# Attributes that identify a class, without an import of dataclasses, attrs, msgspec or pydantic.
_CLASS_ATTRIBUTES = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "__pydantic_validator__")
# Other classes of the standard library that msgspec writes as JSON text or numbers.
_SCALARS = {
    "datetime": ("datetime", "date", "time", "timedelta"),
    "decimal": ("Decimal",),
    "uuid": ("UUID",),
}

_ACCEPTED = "give a type (str, int, float, bool, bytes, dict, a dataclass …), a serde, or a name such as 'long'"


def serde_for(hint: Any, what: str = "value") -> Serde[Any]:
    """Returns the serde for a hint: a serde, a Python type, or a name.

    A serde is returned as it is. ``str``, ``int``, ``float``, ``bool``, ``bytes``, ``uuid.UUID`` and ``None`` have
    Kafka's string, long, double, boolean, bytes, uuid and void serdes. Every other type with a JSON form is JSON,
    decoded into that type: ``dict``, ``list[int]``, dataclasses, TypedDicts, NamedTuples, msgspec Structs, pydantic
    models, enums, datetimes; ``object`` and ``Any`` are JSON of any shape. ``X | None`` has the serde of ``X``, since
    every serde supports None.

    Names are Kafka's: ``"int"`` and ``"float"`` have 4 bytes, while ``int`` is a long and ``float`` a double.

    >>> serde_for(int), serde_for("int"), serde_for(str | None), serde_for(list[str])
    (<long serde>, <int serde>, <string serde>, <json serde>)

    Args:
        hint: The serde, type or name.
        what: The purpose of the serde, as the start of an error message: ``"value"``, ``"key of topic orders"``.

    Raises:
        ConfigError: There is no serde for the hint.
    """
    if isinstance(hint, Serde):
        return hint
    if isinstance(hint, str):
        return _by_name(hint, what)
    serde = _by_type(hint)
    if serde is None:
        raise ConfigError(f"{what}: there is no serde for {type_text(hint)}", hint=_hint_for(hint))
    return serde


def _by_name(name: str, what: str) -> Serde[Any]:
    serde = BY_NAME.get(name)
    if serde is None:
        names = f"known are {', '.join(BY_NAME)}"
        raise ConfigError(
            f"{what}: there is no serde named {name[:60]!r}",
            hint=suggestion(name.lower(), BY_NAME) or names,
        )
    return serde


def _by_type(hint: Any) -> Serde[Any] | None:
    """Returns the serde for a Python annotation, or None."""
    if isinstance(hint, NewType):
        return _by_type(hint.__supertype__)
    try:
        serde = _BY_TYPE.get(hint)
    except TypeError:  # such as Annotated[int, []], which has no hash
        serde = None
    if serde is not None:
        return serde
    if _is_class_of(hint, "uuid", ("UUID",)):
        return UUID
    if typing.get_origin(hint) in _UNIONS:
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        serde = _by_type(members[0]) if len(members) == 1 else None
        if serde is not None and not isinstance(serde, JsonSerde):
            return serde
    return json_of(hint) if _has_json_form(hint) else None


def _has_json_form(hint: Any) -> bool:
    """Whether JSON can be decoded into an annotation. The fields of classes are not checked."""
    origin = typing.get_origin(hint)
    if isinstance(hint, NewType):
        return _has_json_form(hint.__supertype__)
    if isinstance(hint, (str, typing.ForwardRef)) or origin is typing.Literal:
        return True
    if origin is typing.Annotated:
        return _has_json_form(hint.__origin__)
    if origin in _UNIONS:
        return all(map(_has_json_form, typing.get_args(hint)))
    if isinstance(origin, type):
        members = typing.get_args(hint)
        supported = _has_json_form(origin) or (
            origin.__module__ == "collections.abc" and issubclass(origin, Collection)
        )
        return supported and all(member is ... or _has_json_form(member) for member in members)
    return hint is None or hint is Any or (isinstance(hint, type) and _is_json_class(hint))


def _is_json_class(cls: type) -> bool:
    if cls in _BY_TYPE or cls in _CONTAINERS:
        return True
    if issubclass(cls, (Serde, Windowed)):
        return False
    return (
        any(hasattr(cls, name) for name in _CLASS_ATTRIBUTES)
        or (issubclass(cls, dict) and hasattr(cls, "__total__"))  # a TypedDict
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))  # a NamedTuple
        or hasattr(cls, "__members__")  # an enum
        or any(_is_class_of(cls, module, names) for module, names in _SCALARS.items())
    )


def _is_class_of(hint: Any, module: str, names: tuple[str, ...]) -> bool:
    """Whether a hint is one of a module's classes. Does not import the module: an unused one has no hints."""
    loaded = sys.modules.get(module)
    return loaded is not None and any(hint is getattr(loaded, name) for name in names)


def _hint_for(hint: Any) -> str:
    """Returns the remedy for a hint without a serde."""
    cls = typing.get_origin(hint) or hint
    if not isinstance(cls, type) or cls in _UNIONS:
        return _ACCEPTED
    if issubclass(cls, Serde):
        return f"give an instance of it: {cls.__name__}()"
    if issubclass(cls, Windowed):
        return "give time_windowed(key, size_ms) or session_windowed(key)"
    if issubclass(cls, (bytearray, memoryview)):
        return "give bytes"
    if cls in _CONTAINERS:
        return "JSON cannot be decoded into its items; make them dataclasses, or write a Serde"
    return f"make {cls.__name__} a dataclass, which has a JSON form, or write a Serde for it"
