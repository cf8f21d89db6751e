"""The Protobuf serde, on Protobuf's own runtime."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from millstream.expr.description import Description
from millstream.registry.api import Reference, Schema, SchemaRegistry, SchemaType
from millstream.schemas.options import SerdeOptions, defaults_of
from millstream.schemas.protobuf.conversion import MessageReader, MessageWriter
from millstream.schemas.protobuf.description import describe_message
from millstream.schemas.protobuf.descriptors import (
    Files,
    Messages,
    base64_of,
    class_of,
    files_of_schema,
    indexes_of,
    is_built_in,
    read_indexes,
    write_indexes,
)
from millstream.schemas.python_types import Record, describe_type
from millstream.schemas.serde import Decode, Encode, Parts, SchemaSerde

T = TypeVar("T")


class ProtobufSerde(SchemaSerde[T], Generic[T]):
    """Protobuf messages, or values of a type that are written as such; see :func:`protobuf`."""

    name = "protobuf"
    type: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(
        self,
        schema: Schema | None,
        options: SerdeOptions,
        *,
        files: Files | None = None,
        message: str | None = None,
        message_class: Any = None,
        python_type: object = object,
    ) -> None:
        """Creates a serde.

        Args:
            schema: The schema as it is registered.
            options: The options.
            files: The files of the schema; None if a part of them is in the registry.
            message: The full name of the message.
            message_class: The generated class of the messages.
            python_type: The type of the values: a class of messages, or a type from which the message was derived.
        """
        super().__init__(schema, options, python_type if message_class is None else message_class)
        self._files = files
        self._message = message
        self._class = message_class
        self._is_typed = python_type is not object

    def _record_name(self) -> str | None:
        return self._message

    def describe_values(self) -> Description | None:
        if self.schema is None or (self._class is None and self._files is None):
            return None  # files that it imports are in the registry, which is not asked here
        return describe_message(self._own_class(()).DESCRIPTOR)

    def _record(self) -> Record:
        described = describe_type(self.python_type)
        assert isinstance(described, Record)
        return described

    def _own_class(self, parts: Parts) -> Any:
        if self._class is not None:
            return self._class
        assert self.schema is not None
        files = self._files or files_of_schema(self.schema, parts)
        return class_of(Messages(files).named(self._message))

    def own_references(self) -> tuple[tuple[str, str], ...]:
        files = () if self._files is None else self._files.serialized[:-1]
        return tuple((Files((data,)).own.name, base64_of(data)) for data in files)

    def _complete_schema(self, registry: SchemaRegistry, *, register: bool) -> Schema | None:
        """Returns the own schema with references to the files that it imports, which are registered by their names."""
        if self.schema is None or self._files is None or len(self._files.serialized) == 1:
            return self.schema
        options, defaults = self._options, defaults_of(self._context)
        normalize = defaults.normalize if options.normalize is None else options.normalize
        known: dict[str, Reference] = {}
        for data in self._files.serialized[:-1]:
            file = Files((data,)).own
            imported = tuple(known[name] for name in file.dependency if not is_built_in(name))
            schema = Schema(base64_of(data), "PROTOBUF", imported)
            if register:
                registry.register(file.name, schema, normalize=normalize)
            version = registry.lookup(file.name, schema, normalize=normalize).version
            known[file.name] = Reference(file.name, file.name, version)
        imported = tuple(known[name] for name in self._files.own.dependency if not is_built_in(name))
        return Schema(self.schema.text, "PROTOBUF", imported)

    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        is_own = self.schema is not None and schema.text == self.schema.text
        messages = None if is_own else Messages(files_of_schema(schema, parts))
        own = None if self.schema is None else self._own_class(parts)
        fill = MessageWriter().record(self._record()) if self._is_typed else None
        prefixes: dict[str, bytes] = {}

        def prefix_of(descriptor: Any) -> bytes:
            if not prefix:
                return b""
            written = descriptor if messages is None else messages.named(descriptor.full_name)
            return prefix + write_indexes(indexes_of(written))

        def encode(value: Any) -> bytes:
            if isinstance(value, Message) and not self._is_typed:
                if own is not None and value.DESCRIPTOR.full_name != own.DESCRIPTOR.full_name:
                    raise TypeError(f"it is a {value.DESCRIPTOR.full_name}, not a {own.DESCRIPTOR.full_name}")
                message = value
            else:
                cls = own
                if cls is None:
                    assert messages is not None
                    cls = class_of(messages.named(None))
                message = cls()
                if fill is not None:
                    fill(message, value)
                else:
                    json_format.ParseDict(value, message)
            name = message.DESCRIPTOR.full_name
            if name not in prefixes:
                prefixes[name] = prefix_of(message.DESCRIPTOR)
            if self.is_key and not self._is_typed:
                message = known_part(message, None if messages is None else class_of(messages.named(name)))
            data: bytes = message.SerializeToString(deterministic=True)
            return prefixes[name] + data

        return encode

    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        if self.schema is None:
            return _by_indexes(Messages(files_of_schema(schema, parts)), skip)
        parse = self._own_class(own).FromString
        convert = MessageReader().record(self._record()) if self._is_typed else None

        def decode(data: bytes) -> Any:
            start = 0
            if skip:  # Protobuf reads a message of another version of the schema by itself
                start = skip + 1 if data[skip : skip + 1] == b"\x00" else read_indexes(data, skip)[1]
            message = parse(data[start:])
            return message if convert is None else convert(message)

        return decode


def known_part(message: Any, cls: Any = None) -> Any:
    """Returns a message without the fields that its class, or another version of it, does not have.

    Records of a newer version of the schema have such fields, and equal keys must have equal bytes.
    """
    known = (cls or type(message)).FromString(message.SerializeToString())
    known.DiscardUnknownFields()
    return known


def _by_indexes(messages: Messages, skip: int) -> Decode:
    """Returns the function that reads messages of the class that a record names."""
    classes: dict[tuple[int, ...], Any] = {}

    def decode(data: bytes) -> Any:
        indexes, start = read_indexes(data, skip)
        cls = classes.get(indexes)
        if cls is None:
            cls = classes[indexes] = class_of(messages.at(indexes))
        return cls.FromString(data[start:])

    return decode
