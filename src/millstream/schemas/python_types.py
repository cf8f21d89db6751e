"""Python types as data: the records, lists and values from which schemas are derived."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, TypeAlias, TypeVar

from millstream.errors import InvalidSchemaError
from millstream.serde.json_codec import is_pydantic
from millstream.serde.json_serde import type_text

Kind: TypeAlias = Literal[
    "null", "boolean", "int32", "int64", "float32", "float64", "bytes", "string", "date", "time", "timestamp", "uuid",
    "decimal",
]  # fmt: skip

MISSING: Any = type("Missing", (), {"__repr__": lambda _self: "MISSING"})()
"""The default of a field that has none."""


TAGS = "confluent:tags"
"""The attribute of a field in Avro and JSON Schema that has its tags."""


@dataclass(frozen=True, slots=True)
class Bits:
    """The size of numbers in a schema: ``Annotated[int, Bits(32)]``. Default: 64 bits."""

    bits: Literal[32, 64]


@dataclass(frozen=True, slots=True)
class Digits:
    """The size of decimals in a schema: ``Annotated[Decimal, Digits(10, 2)]``.

    Attributes:
        precision: The number of digits.
        scale: The number of digits behind the point.
    """

    precision: int
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Aliases:
    """Former names of a field in Avro, for records that were written before it was renamed."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class FieldNumber:
    """The number of a field in Protobuf. Default: its position, from 1."""

    number: int


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags of a field: ``Annotated[str, Tags("pii")]``. Contracts mask tagged fields, and `describe` shows them.

    Schemas in Avro and JSON Schema have them as ``confluent:tags``.
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts; a decimal may have digits."""

    kind: Kind
    digits: Digits | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """An enum, or a Literal of texts. A symbol is the value of a member if all values are names, else its name."""

    name: str
    symbols: dict[str, Any]

    @property
    def by_value(self) -> bool:
        """Whether symbols are the values of the members."""
        return all(symbol == (m.value if isinstance(m, enum.Enum) else m) for symbol, m in self.symbols.items())


@dataclass(frozen=True, slots=True)
class Items:
    """A list, a set or a tuple of items of one type."""

    item: PythonType
    make: Any


@dataclass(frozen=True, slots=True)
class Entries:
    """A dict with texts as keys."""

    value: PythonType


@dataclass(frozen=True, slots=True)
class OneOf:
    """A union."""

    members: tuple[PythonType, ...]

    @property
    def optional(self) -> PythonType | None:
        """The other member, if one of two is None."""
        others = [member for member in self.members if member != Scalar("null")]
        return others[0] if len(others) == 1 and len(self.members) == 2 else None


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record.

    Attributes:
        name: Its name in the schema.
        attribute: Its name in Python.
        type: Its type.
        default: Its default value, or `MISSING`.
        required: A TypedDict must have it.
        annotations: What its annotation adds: `Aliases`, `FieldNumber`, `Tags`.
    """

    name: str
    attribute: str
    type: PythonType
    default: Any = MISSING
    required: bool = True
    annotations: tuple[Any, ...] = ()


@dataclass(slots=True, eq=False)
class Record:
    """A class with fields. It is created before its fields, which may contain it."""

    name: str
    cls: Any
    fields: list[RecordField] = field(default_factory=list)


N = TypeVar("N", bound=Choice | Record)
PythonType: TypeAlias = Scalar | Choice | Items | Entries | OneOf | Record

_SCALARS: dict[Any, Scalar] = {
    type(None): Scalar("null"),
    None: Scalar("null"),
    bool: Scalar("boolean"),
    int: Scalar("int64"),
    float: Scalar("float64"),
    bytes: Scalar("bytes"),
    str: Scalar("string"),
    dt.date: Scalar("date"),
    dt.time: Scalar("time"),
    dt.datetime: Scalar("timestamp"),
    uuid.UUID: Scalar("uuid"),
}
_LISTS = (list, tuple, set, frozenset)


def describe_type(hint: Any) -> PythonType:
    """Returns a Python type as data.

    Raises:
        InvalidSchemaError: It has no schema; the error names the field.
    """
    name = hint.__name__ if isinstance(hint, type) else type_text(hint)
    return _Describing().type(hint, name, ())


def _fail(path: str, hint: Any, remedy: str | None = None) -> InvalidSchemaError:
    return InvalidSchemaError(f"{path}: there is no schema for {type_text(hint)}", hint=remedy)


class _Describing:
    def __init__(self) -> None:
        self._records: dict[Any, Record] = {}
        self._names: dict[str, Any] = {}

    def type(self, hint: Any, path: str, annotations: tuple[Any, ...]) -> PythonType:
        if isinstance(hint, NewType):
            return self.type(hint.__supertype__, path, annotations)
        if hasattr(hint, "__value__"):  # a type alias of Python 3.12
            return self.type(hint.__value__, path, annotations)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self.type(arguments[0], path, (*arguments[1:], *annotations))
        if origin in {typing.Required, typing.NotRequired, typing.ClassVar}:
            return self.type(arguments[0], path, annotations)
        if origin is typing.Union or origin is types.UnionType:
            return OneOf(tuple(self.type(member, path, annotations) for member in arguments))
        if origin is typing.Literal and all(isinstance(value, str) for value in arguments):
            name = path.replace(".", "_")
            return Choice(_identifier(name, path), {_identifier(value, path): value for value in arguments})
        if origin is not None:
            return self._generic(hint, origin, arguments, path)
        return self._plain(hint, path, annotations)

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...], path: str) -> PythonType:
        if isinstance(origin, type) and issubclass(origin, Mapping):
            if self.type(arguments[0], path, ()) != Scalar("string"):
                raise _fail(path, hint, "the keys of a map are texts")
            return Entries(self.type(arguments[1], f"{path}[]", ()))
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):
            raise _fail(path, hint, "give tuple[X, …], or a class with fields")
        if isinstance(origin, type) and issubclass(origin, Collection):
            return Items(self.type(arguments[0], f"{path}[]", ()), origin if origin in _LISTS else list)
        return self._record(hint, path)

    def _plain(self, hint: Any, path: str, annotations: tuple[Any, ...]) -> PythonType:
        if hint is decimal.Decimal:
            return Scalar("decimal", _digits(annotations))
        try:
            scalar = _SCALARS.get(hint)
        except TypeError:
            scalar = None
        if scalar is not None:
            return _sized(scalar, annotations)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self._named(hint, _choice(hint, path), path)
        if hint in {list, dict, set, tuple, frozenset, object, Any}:
            raise _fail(path, hint, "a schema needs the types of items and fields: give list[int], dict[str, int], …")
        return self._record(hint, path)

    def _named(self, cls: Any, made: N, path: str) -> N:
        other = self._names.setdefault(made.name, cls)
        if other is not cls:
            raise InvalidSchemaError(f"{path}: there are two types named {made.name!r}", hint="rename one of them")
        return made

    def _record(self, cls: Any, path: str) -> Record:
        if cls in self._records:
            return self._records[cls]
        origin = typing.get_origin(cls) or cls
        if not isinstance(origin, type) or not _has_fields(origin):
            raise _fail(path, cls, "give a dataclass, a msgspec.Struct, a TypedDict or a pydantic model")
        if typing.get_origin(cls) is not None:
            raise _fail(path, cls, "give a class without type parameters")
        record = self._records[cls] = self._named(cls, Record(_identifier(cls.__name__, path), cls), path)
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except (NameError, TypeError) as error:
            raise InvalidSchemaError(f"{path}: an annotation of {cls.__name__} cannot be resolved: {error}") from None
        for attribute, name, default, required in fields_of_class(cls):
            hint = hints.get(attribute, Any)
            where = f"{path}.{attribute}"
            metadata = _metadata(cls, attribute, hint)
            described = self.type(hint, where, metadata)
            record.fields.append(
                RecordField(_identifier(name, where), attribute, described, default, required, metadata)
            )
        return record


def _has_fields(cls: Any) -> bool:
    return (
        hasattr(cls, "__dataclass_fields__")
        or hasattr(cls, "__struct_fields__")
        or is_pydantic(cls)
        or typing.is_typeddict(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def fields_of_class(cls: Any) -> list[tuple[str, str, Any, bool]]:
    """Returns the attribute, the name, the default and whether it is required, of each field."""
    if typing.is_typeddict(cls):
        hints = typing.get_type_hints(cls, include_extras=True)
        return [(name, name, MISSING, _is_required(cls, name, hint)) for name, hint in hints.items()]
    if hasattr(cls, "__struct_fields__"):
        import msgspec

        return [(f.name, f.encode_name, _default(f, msgspec.NODEFAULT), True) for f in msgspec.structs.fields(cls)]
    if hasattr(cls, "model_fields"):
        return [
            (
                name,
                f.serialization_alias or f.alias or name,
                MISSING if f.is_required() else f.get_default(call_default_factory=True, validated_data={}),
                True,
            )
            for name, f in cls.model_fields.items()
        ]
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses

        return [(f.name, f.name, _default(f, dataclasses.MISSING), True) for f in dataclasses.fields(cls) if f.init]
    return [(name, name, cls._field_defaults.get(name, MISSING), True) for name in cls._fields]


def _is_required(cls: Any, name: str, hint: Any) -> bool:
    """Whether a TypedDict must have a key. `__required_keys__` is wrong if the annotations of the class are texts."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_required(cls, name, typing.get_args(hint)[0])
    return origin is typing.Required or (name in cls.__required_keys__ and origin is not typing.NotRequired)


def _default(item: Any, missing: Any) -> Any:
    if item.default is not missing:
        return item.default
    return MISSING if item.default_factory is missing else item.default_factory()


def _metadata(cls: Any, attribute: str, hint: Any) -> tuple[Any, ...]:
    own = typing.get_args(hint)[1:] if typing.get_origin(hint) is typing.Annotated else ()
    model = getattr(cls, "model_fields", None)
    return own if model is None else (*own, *model[attribute].metadata)


def _sized(scalar: Scalar, annotations: tuple[Any, ...]) -> Scalar:
    bits = next((item.bits for item in annotations if isinstance(item, Bits)), 64)
    if bits == 32 and scalar.kind in {"int64", "float64"}:
        return Scalar("int32" if scalar.kind == "int64" else "float32")
    return scalar


def _digits(annotations: tuple[Any, ...]) -> Digits | None:
    for item in annotations:
        if isinstance(item, Digits):
            return item
        if getattr(item, "max_digits", None) is not None:  # of pydantic's Field
            return Digits(item.max_digits, getattr(item, "decimal_places", None) or 0)
    return None


def _choice(cls: type[enum.Enum], path: str) -> Choice:
    members = list(cls)
    if not members:
        raise _fail(path, cls, "an enum needs members")
    by_value = all(isinstance(member.value, str) and _is_identifier(member.value) for member in members)
    symbols = {(member.value if by_value else _identifier(member.name, path)): member for member in members}
    return Choice(_identifier(cls.__name__, path), symbols)


def _is_identifier(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _identifier(name: str, path: str) -> str:
    if not _is_identifier(name):
        raise InvalidSchemaError(
            f"{path}: {name!r} is not a name in a schema", hint="a name has letters, digits and underscores"
        )
    return name
