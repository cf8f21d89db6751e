"""How functions and classes of the script go to other processes: by value, so that the script is not run again there.

cloudpickle makes an empty class and then sets its attributes. That is not enough for classes whose metaclass reads the
body (msgspec's Structs), for slots, for enums whose members have attributes of their own, and for objects that are
known by their identity (`dataclasses.MISSING`).
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NewType

from pyspark.cloudpickle import cloudpickle as untyped_cloudpickle

from millstream.serde.json_codec import is_pydantic

cloudpickle: Any = untyped_cloudpickle

_STRUCT_OPTIONS = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash",
)  # fmt: skip

_TypeAlias: Any = getattr(typing, "TypeAliasType", NewType)
"""The type of the objects that a ``type`` statement creates, from Python 3.12 on."""

_CONSTRAINTS = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz", "title", "description",
    "examples", "extra_json_schema", "extra",
)  # fmt: skip
"""Of `msgspec.Meta`, which cannot be pickled."""


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, with classes and constants as other processes need them."""

    def reducer_override(self, thing: Any) -> Any:
        """Returns how to make an object again; NotImplemented to leave that to the object."""
        if isinstance(thing, type):
            return _reduce_class(thing, super().reducer_override)
        if isinstance(thing, NewType | _TypeAlias):
            return _reduce_named_type(thing)
        if isinstance(thing, types.FunctionType):
            return super().reducer_override(thing)
        if _is_meta(thing):
            return _make_meta, ({name: getattr(thing, name) for name in _CONSTRAINTS},)
        if type(thing) is functools.cached_property:
            return _make_cached_property, (thing.func, thing.attrname)
        return _constant_name(thing) or super().reducer_override(thing)


def _reduce_class(cls: type, usual: Callable[[Any], Any]) -> Any:
    if "__msgspec_cache__" in vars(cls):  # msgspec makes it again when it first reads or writes the class
        del cls.__msgspec_cache__  # type: ignore[attr-defined]
    generic = vars(cls).get("__pydantic_generic_metadata__")
    if generic and generic["origin"] is not None:
        return _make_generic_model, (generic["origin"], generic["args"])
    reduced = usual(cls)
    if reduced is NotImplemented or reduced[0] not in {_MAKE_CLASS, _MAKE_ENUM}:
        return reduced  # by reference
    if variable := _variable_of(cls, cls.__module__):
        return variable
    if issubclass(cls, enum.Enum):
        return _reduce_enum(cls, reduced)
    if annotations := _resolved_annotations(cls):
        reduced[2][0]["__annotations__"] = annotations
    if hasattr(cls, "__struct_config__"):
        return _reduce_struct(cls, reduced)
    if is_pydantic(cls):
        _build_model(cls)  # here, where the names in its annotations are known
        make, arguments, (attributes, slots), *_setter = usual(cls)
        state = {name: value for name, value in attributes.items() if name not in _BUILT}
        return make, arguments, (state, slots), None, None, _set_model_state
    if "__slots__" in vars(cls) and not hasattr(cls, "_field_defaults"):  # a NamedTuple has its own
        make, (constructor, name, bases, body, *rest), *state = reduced
        return make, (constructor, name, bases, {**body, "__slots__": vars(cls)["__slots__"]}, *rest), *state
    return reduced


def _resolved_annotations(cls: type) -> dict[str, Any] | None:
    """Returns the annotations of a class with types in the place of names; None if there are no names in them.

    Names are looked up in the module of the class, and ``__main__`` is another module in another process.
    """
    annotations = inspect.get_annotations(cls)
    if not any(map(_has_name, annotations.values())):
        return None
    try:
        types_of = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001  (an unresolved name is reported where the type is used)
        return None
    return {name: types_of[name] for name in annotations}


def _has_name(annotation: Any) -> bool:
    if isinstance(annotation, (str, typing.ForwardRef)):
        return True
    if isinstance(annotation, list):  # the parameters of a Callable
        return any(map(_has_name, annotation))
    if typing.get_origin(annotation) is typing.Literal:  # its strings are values
        return False
    members = typing.get_args(annotation)
    return any(map(_has_name, members[:1] if hasattr(annotation, "__metadata__") else members))


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
    # The types of the fields are among the attributes: they may be classes that are not there yet.
    body = {**body, "__annotations__": dict.fromkeys(own, object), "__qualname__": cls.__qualname__}
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


def _is_meta(thing: Any) -> bool:
    return (type(thing).__module__, type(thing).__name__) == ("msgspec", "Meta")


def _make_meta(constraints: dict[str, Any]) -> Any:
    import msgspec  # noqa: PLC0415  (as above)

    return msgspec.Meta(**{name: value for name, value in constraints.items() if value is not None})


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


# ----- pydantic's models ----------------------------------------------------------------------------------------------

_BUILT = frozenset(
    {
        "__pydantic_core_schema__",
        "__pydantic_validator__",
        "__pydantic_serializer__",
        "__pydantic_parent_namespace__",
    }
)
"""Attributes that pydantic derives from the fields of a model. They refer to other models, which may not exist yet."""

_unbuilt: list[type] = []


def _set_model_state(cls: Any, state: Any) -> None:
    cloudpickle._class_setstate(cls, state)
    for name in _BUILT & vars(cls).keys():
        delattr(cls, name)
    cls.__pydantic_complete__ = False
    _unbuilt.append(cls)


def _make_generic_model(origin: Any, arguments: tuple[Any, ...]) -> type:
    model: type = origin[arguments]
    return model


def build_models() -> None:
    """Lets pydantic build the validators of the models that were unpacked, now that all of them are there."""
    while _unbuilt:
        _build_model(_unbuilt.pop())


def _build_model(cls: Any) -> None:
    if hasattr(cls, "model_rebuild"):
        cls.model_rebuild(raise_errors=False)  # where a name is not known, pydantic says so at the first use
    else:
        from pydantic.dataclasses import rebuild_dataclass  # noqa: PLC0415  (there is such a class: it is loaded)

        rebuild_dataclass(cls, raise_errors=False)


# ----- enums ----------------------------------------------------------------------------------------------------------

_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    str: str.__str__,
    float: float.__float__,
    bytes: bytes.__bytes__,
}
"""Converts a member of an enum to its plain value, by the data type of the enum."""


def _reduce_enum(cls: type[enum.Enum], reduced: Any) -> Any:
    make, (bases, name, qualname, _members, *rest), state, *_setter = reduced
    plain = _PLAIN.get(cls._member_type_, operator.attrgetter("value"))  # type: ignore[attr-defined]
    members = {key: member for key, member in cls.__members__.items() if member.name == key}
    aliases = {key: member.name for key, member in cls.__members__.items() if member.name != key}
    attributes = {
        key: {attribute: value for attribute, value in vars(member).items() if attribute != "__objclass__"}
        for key, member in members.items()
    }
    for key in cls.__members__:
        state[0].pop(key, None)
    arguments = (bases, name, qualname, {key: plain(member) for key, member in members.items()}, *rest)
    return make, arguments, (state, attributes, aliases), None, None, _set_enum_state


def _set_enum_state(cls: Any, state: tuple[Any, dict[str, dict[str, Any]], dict[str, str]]) -> None:
    """Sets the attributes that ``__new__`` or ``__init__`` of the enum gave its members: neither is called again."""
    usual, attributes, aliases = state
    cloudpickle._class_setstate(cls, usual)
    for name, own in attributes.items():
        member = cls._member_map_[name]
        vars(member).update(own)
        try:
            cls._value2member_map_[member._value_] = member
        except TypeError:  # an unhashable value, which the enum searches for linearly
            pass
    for alias, name in aliases.items():
        cls._member_map_[alias] = cls._member_map_[name]
        type.__setattr__(cls, alias, cls._member_map_[name])


# ----- members of classes, constants and new types -------------------------------------------------------------------


def _make_cached_property(function: Callable[[Any], Any], name: str) -> Any:
    made: Any = functools.cached_property(function)  # up to Python 3.11 it has a lock
    made.__set_name__(None, name)
    return made


def _reduce_named_type(named: Any) -> Any:
    if variable := _variable_of(named, named.__module__):
        return variable
    if hasattr(named, "__supertype__"):
        return _make_new_type, (named.__name__, named.__qualname__, named.__module__, named.__supertype__)
    return _make_alias, (named.__name__, named.__value__, named.__type_params__)


def _make_alias(name: str, value: Any, parameters: tuple[Any, ...]) -> Any:
    return _TypeAlias(name, value, type_params=parameters)


def _make_new_type(name: str, qualname: str, module: str, supertype: Any) -> Any:
    constructor: Any = NewType
    made = constructor(name, supertype)
    made.__qualname__, made.__module__ = qualname, module
    return made


def _constant_name(thing: Any) -> str | None:
    """Returns the name of the variable that holds an object without state, in the module of its class.

    Such objects, `dataclasses.MISSING` among them, are known by their identity: a copy would be another one.
    """
    cls: Any = type(thing)
    is_usual = all(getattr(cls, name) is getattr(object, name) for name in _PICKLING)
    if not is_usual or not cls.__flags__ & _HEAP_TYPE or object.__getstate__(thing) is not None:
        return None
    return _variable_of(thing, cls.__module__)


def _variable_of(thing: Any, module: str) -> str | None:
    """Returns the name of the variable of a module that holds an object, None if other processes cannot import it."""
    if _is_by_value(module) or module not in sys.modules:
        return None
    return next((name for name, value in vars(sys.modules[module]).items() if value is thing), None)


_PICKLING = ("__reduce_ex__", "__reduce__", "__getstate__")
_HEAP_TYPE = 1 << 9
"""Flag of classes that were made by a class statement."""


def _is_by_value(module: str) -> bool:
    return module == "__main__" or module in cloudpickle.list_registry_pickle_by_value()
