"""Protobuf: the serde, and messages from types."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from google.protobuf.message import Message

from millstream.errors import ConfigError
from millstream.registry.api import Schema
from millstream.schemas.json_text import read_schema
from millstream.schemas.options import SchemaOptions, SerdeOptions, checked
from millstream.schemas.protobuf.descriptors import Files, Messages, base64_of, compiled, files_of_class
from millstream.schemas.protobuf.from_types import files_of_type
from millstream.schemas.protobuf.serde import ProtobufSerde
from millstream.schemas.python_types import describe_type
from millstream.serde.api import Serde

__all__ = ["protobuf"]

T = TypeVar("T")


@overload
def protobuf(schema: type[T], *, package: str | None = ..., **options: Unpack[SchemaOptions]) -> Serde[T]: ...
@overload
def protobuf(
    schema: str | Path | None = ...,
    message: str | None = ...,
    *,
    package: str | None = ...,
    **options: Unpack[SchemaOptions],
) -> Serde[Any]: ...
def protobuf(
    schema: Any = None, message: str | None = None, *, package: str | None = None, **options: Unpack[SchemaOptions]
) -> Serde[Any]:
    r"""Returns a serde for Protobuf.

    With a registry (the default), a record carries the id of its schema and the indexes of its message in it, in the
    format of Confluent's serializers. Values are messages of Protobuf's own runtime. A dict in Protobuf's JSON form is
    written, too. Messages are written deterministically: equal ones have equal bytes.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     id: str
    ...     quantity: int = 1
    >>> orders = protobuf(Order, registry=None)
    >>> orders.serialize(Order("o1", 3))
    b'\n\x02o1\x10\x03'
    >>> orders.deserialize(b"\n\x02o1")
    Order(id='o1', quantity=1)

    Args:
        schema: A generated class of messages; or the text or the path of a ``.proto`` file; or a type (dataclass,
            msgspec.Struct, TypedDict, NamedTuple, pydantic model), whose message is derived, and which the values have.
            Without one, values are messages of the schema of their record; they are written with the latest schema of
            the subject, else with that of the topic from which they come.
        message: The name of the message in a ``.proto`` file; it can be left out if there is only one.
        package: The package of the messages of a type.
        **options: ``registry=None``: messages without the id of a schema. ``references``: the schemas that the schema
            refers to. ``subject_name_strategy``, ``auto_register_schemas``, ``use_latest_version`` and
            ``normalize_schemas``, with the meaning and the defaults of the configuration keys.

    Raises:
        InvalidSchemaError: The schema is not valid, or a field of the type has no form in Protobuf.
        SetupError: The schema is text, and grpcio-tools, which compiles it, is not installed.
    """
    known = checked("protobuf", options, has_schema=schema is not None)
    is_text = isinstance(schema, str | Path)
    if message is not None and not is_text:
        raise ConfigError("protobuf: the name of a message belongs to a .proto file", hint='protobuf("x.proto", "X")')
    if schema is None:
        return ProtobufSerde(None, known)
    if is_text:
        return _of_text(schema, message, known)
    if isinstance(schema, type) and issubclass(schema, Message):
        generated: Any = schema
        files = files_of_class(generated)
        registered = Schema(base64_of(files.serialized[-1]), "PROTOBUF")
        name = generated.DESCRIPTOR.full_name
        return ProtobufSerde(registered, known, files=files, message=name, message_class=schema)
    files = files_of_type(describe_type(schema), package)
    registered = Schema(base64_of(files.serialized[-1]), "PROTOBUF")
    name = next(iter(Messages(files).file.message_types_by_name.values())).full_name
    return ProtobufSerde(registered, known, files=files, message=name, python_type=schema)


def _of_text(schema: str | Path, message: str | None, known: SerdeOptions) -> Serde[Any]:
    directory: Path | None = None
    name = "schema.proto"
    if isinstance(schema, str) and ("\n" in schema or "{" in schema):
        text = schema
    else:
        text = read_schema("protobuf", schema, "the text of a .proto file, or its path")
        directory, name = Path(schema).resolve().parent, Path(schema).name
    registered = Schema(text, "PROTOBUF", known.references)
    if known.references:  # the files that it imports are in the registry
        return ProtobufSerde(registered, known, message=message)
    files = _sorted_last(compiled(name, {name: text}, directory), name)
    full_name = Messages(files).named(message).full_name
    return ProtobufSerde(registered, known, files=files, message=full_name)


def _sorted_last(files: Files, name: str) -> Files:
    """Returns the files with the given one behind those that it imports."""
    own = [data for data in files.serialized if Files((data,)).own.name == name]
    return Files((*(data for data in files.serialized if data not in own), *own))
