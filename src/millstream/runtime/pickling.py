"""How functions and classes of the script go to other processes: by value, so that the script is not run again there.

cloudpickle makes an empty class and then sets its attributes. That is not enough for classes whose metaclass reads the
body (msgspec's Structs), for slots, for enums whose members have attributes of their own, and for objects that are
known by their identity (`dataclasses.MISSING`).
"""

from __future__ import annotations

import enum
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NewType

from pyspark.cloudpickle import cloudpickle as untyped_cloudpickle

cloudpickle: Any = untyped_cloudpickle

_STRUCT_OPTIONS = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash",
)  # fmt: skip


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, with classes and constants as other processes need them."""

    def reducer_override(self, thing: Any) -> Any:
        """Returns how to make an object again; NotImplemented to leave that to the object."""
        if isinstance(thing, type):
            return _reduce_class(thing, super().reducer_override)
        if isinstance(thing, NewType):
            return _reduce_new_type(thing)
        if isinstance(thing, types.FunctionType):
            return super().reducer_override(thing)
        return _constant_name(thing) or super().reducer_override(thing)


def _reduce_class(cls: type, usual: Callable[[Any], Any]) -> Any:
    if "__msgspec_cache__" in vars(cls):  # msgspec makes it again when it first reads or writes the class
        del cls.__msgspec_cache__  # type: ignore[attr-defined]
    generic = vars(cls).get("__pydantic_generic_metadata__")
    if generic and generic["origin"] is not None:
        return operator.getitem, (generic["origin"], generic["args"])
    reduced = usual(cls)
    if reduced is NotImplemented or reduced[0] not in {_MAKE_CLASS, _MAKE_ENUM}:
        return reduced  # by reference
    if name := _variable_of(cls, cls.__module__):
        return name
    if issubclass(cls, enum.Enum):
        return _reduce_enum(cls, reduced)
    if hasattr(cls, "__struct_config__"):
        return _reduce_struct(cls, reduced)
    if "__slots__" in vars(cls) and not hasattr(cls, "_field_defaults"):  # a NamedTuple has its own
        make, (constructor, name, bases, body, *rest), *state = reduced
        return make, (constructor, name, bases, {**body, "__slots__": cls.__slots__}, *rest), *state
    return reduced


_MAKE_CLASS = cloudpickle._make_skeleton_class
_MAKE_ENUM = cloudpickle._make_skeleton_enum


# ----- msgspec's Structs ----------------------------------------------------------------------------------------------


def _reduce_struct(cls: Any, reduced: Any) -> Any:
    """The fields are in the body, from which the metaclass makes them; the rest follows when the class is there."""
    _make, (metaclass, name, bases, body, tracker, _extra), (attributes, slots), *rest = reduced
    own = [field for field in cls.__struct_fields__ if field in vars(cls).get("__annotations__", ())]
    encoded = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    config = cls.__struct_config__
    options = {option: getattr(config, option) for option in _STRUCT_OPTIONS}
    options["kw_only"] = bool(own) and not set(own) & set(cls.__match_args__)
    options["rename"] = {field: encoded[field] for field in own}
    options["tag"] = config.tag if config.tag is not None else False
    if config.tag is not None:
        options["tag_field"] = config.tag_field
    body = {**body, "__annotations__": attributes.pop("__annotations__", {}), "__qualname__": cls.__qualname__}
    if "__post_init__" in attributes:  # msgspec looks for it only here
        body["__post_init__"] = attributes.pop("__post_init__")
    for name_of_field in (*own, "__slots__", "__struct_fields__"):
        attributes.pop(name_of_field, None)
    arguments = (metaclass, name, bases, body, _struct_defaults(cls, own), options, tracker)
    return _make_struct, arguments, (attributes, slots), *rest


def _struct_defaults(cls: Any, own: list[str]) -> dict[str, tuple[str, Any]]:
    """The defaults of fields, as arguments of `msgspec.field`."""
    import msgspec  # noqa: PLC0415  (there is a Struct: it is loaded)

    defaults = cls.__struct_defaults__
    with_default = zip(cls.__struct_fields__[len(cls.__struct_fields__) - len(defaults) :], defaults, strict=True)
    arguments: dict[str, tuple[str, Any]] = {}
    for field, default in with_default:
        if field in own and default is not msgspec.NODEFAULT:
            factory = getattr(default, "factory", None) if type(default).__module__ == "msgspec._core" else None
            arguments[field] = ("default", default) if factory is None else ("default_factory", factory)
    return arguments


def _make_struct(
    metaclass: Any,
    name: str,
    bases: tuple[Any, ...],
    body: dict[str, Any],
    defaults: dict[str, tuple[str, Any]],
    options: dict[str, Any],
    tracker: Any,
) -> type:
    import msgspec  # noqa: PLC0415  (as above)

    fields: dict[str, Any] = {field: msgspec.field(**{kind: value}) for field, (kind, value) in defaults.items()}
    made = types.new_class(name, bases, {"metaclass": metaclass, **options}, lambda own: own.update({**body, **fields}))
    return typing.cast(type, cloudpickle._lookup_class_or_track(tracker, made))


# ----- enums ----------------------------------------------------------------------------------------------------------

_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    str: str.__str__,
    float: float.__float__,
    bytes: bytes.__bytes__,
}
"""What a member of an enum is apart from being one, by the data type of the enum."""


def _reduce_enum(cls: type[enum.Enum], reduced: Any) -> Any:
    make, (bases, name, qualname, members, *rest), state, *_unused = reduced
    plain = _PLAIN.get(cls._member_type_)  # type: ignore[attr-defined]
    if plain is not None:
        members = {name: plain(cls.__members__[name]) for name in members}
    attributes = {
        name: {key: value for key, value in vars(cls.__members__[name]).items() if key != "__objclass__"}
        for name in members
    }
    aliases = {alias: member.name for alias, member in cls.__members__.items() if alias not in members}
    for alias in aliases:
        state[0].pop(alias, None)
    return make, (bases, name, qualname, members, *rest), (state, attributes, aliases), None, None, _set_enum_state


def _set_enum_state(cls: Any, state: tuple[Any, dict[str, dict[str, Any]], dict[str, str]]) -> None:
    """Gives the members what a ``__new__`` or ``__init__`` of the enum gave them: neither is called again."""
    usual, attributes, aliases = state
    cloudpickle._class_setstate(cls, usual)
    for name, own in attributes.items():
        member = cls._member_map_[name]
        vars(member).update(own)
        try:
            cls._value2member_map_[member._value_] = member
        except TypeError:  # a value without a hash, which the enum looks for one by one
            pass
    for alias, name in aliases.items():
        cls._member_map_[alias] = cls._member_map_[name]
        type.__setattr__(cls, alias, cls._member_map_[name])


# ----- constants and new types ----------------------------------------------------------------------------------------


def _reduce_new_type(new_type: Any) -> Any:
    if cloudpickle._lookup_module_and_qualname(new_type) is not None and not _is_by_value(new_type.__module__):
        return NotImplemented
    return _make_new_type, (new_type.__name__, new_type.__qualname__, new_type.__module__, new_type.__supertype__)


def _make_new_type(name: str, qualname: str, module: str, supertype: Any) -> Any:
    made: Any = NewType(name, supertype)  # type: ignore[valid-newtype]
    made.__qualname__, made.__module__ = qualname, module
    return made


def _constant_name(thing: Any) -> str | None:
    """Returns the name of the variable that holds an object without state, in the module of its class.

    Such objects, `dataclasses.MISSING` among them, are known by their identity: a copy would be another one.
    """
    cls = type(thing)
    if cls.__reduce_ex__ is not object.__reduce_ex__ or cls.__reduce__ is not object.__reduce__:
        return None
    if cls.__getstate__ is not object.__getstate__ or not cls.__flags__ & _HEAP_TYPE:
        return None
    return _variable_of(thing, cls.__module__) if object.__getstate__(thing) is None else None  # type: ignore[attr-defined]


def _variable_of(thing: Any, module: str) -> str | None:
    """Returns the name of the variable of a module that holds an object, None if other processes cannot import it."""
    if _is_by_value(module) or module not in sys.modules:
        return None
    return next((name for name, value in vars(sys.modules[module]).items() if value is thing), None)


_HEAP_TYPE = 1 << 9
"""Flag of classes that were made by a class statement."""


def _is_by_value(module: str) -> bool:
    return module == "__main__" or module in cloudpickle.list_registry_pickle_by_value()
