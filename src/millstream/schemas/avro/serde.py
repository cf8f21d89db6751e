"""The Avro serde: fastavro encodes and decodes."""

from __future__ import annotations

import copy
from io import BytesIO
from typing import Any, ClassVar, Generic, TypeVar

from millstream.errors import InvalidSchemaError, SerializationError
from millstream.expr.description import Description
from millstream.registry.api import Schema, SchemaType
from millstream.schemas.avro.description import describe_avro
from millstream.schemas.avro.json_form import json_reader
from millstream.schemas.avro.limits import MOST_LEVELS, check_levels, guard_for
from millstream.schemas.avro.parsing import ParsedSchema, parsed, shape_of
from millstream.schemas.avro.resolution import with_python_defaults
from millstream.schemas.canonical import sorted_dicts
from millstream.schemas.conversion import Convert, converters
from millstream.schemas.options import SerdeOptions
from millstream.schemas.python_types import describe_type
from millstream.schemas.serde import Decode, Encode, Parts, SchemaSerde

T = TypeVar("T")


class AvroSerde(SchemaSerde[T], Generic[T]):
    """Values in Avro's binary encoding; see :func:`avro`."""

    name = "avro"
    type: ClassVar[SchemaType] = "AVRO"

    def __init__(
        self,
        schema: Schema | None,
        options: SerdeOptions,
        python_type: object = object,
        namespace: str | None = None,
    ) -> None:
        super().__init__(schema, options, python_type)
        self._namespace = namespace
        self._name = None
        if schema is not None and not schema.references:
            self._name = parsed(schema).name
            self._converters()  # a type that cannot be converted is an error now

    def _forget(self) -> None:
        super()._forget()
        self._written: ParsedSchema | None = None

    def _record_name(self) -> str | None:
        return self._name

    def describe_values(self) -> Description | None:
        if self.schema is None or self.schema.references:
            return None  # schemas to which it refers are in the registry, which is not asked here
        return describe_avro(parsed(self.schema))

    def _converters(self) -> tuple[Convert | None, Convert | None]:
        if self.python_type is object:
            return None, None
        return converters(describe_type(self.python_type), self.python_type, self._namespace)

    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        from fastavro import schemaless_writer

        to_write = self._written = parsed(schema, parts)
        root, convert = to_write.root, self._converters()[0]
        is_deep = shape_of(to_write).levels > MOST_LEVELS
        if _is_bytes(to_write):
            # Confluent's serializers write bytes without their length, because the record ends behind them.
            return lambda value: prefix + (value if isinstance(value, bytes) else bytes(value))
        sorts = self.is_key and _has_map(root)

        def encode(value: Any) -> bytes:
            if convert is not None:
                value = convert(value)
            if is_deep:
                check_levels(value)
            if sorts:
                value = sorted_dicts(value)
            buffer = BytesIO()
            buffer.write(prefix)
            schemaless_writer(buffer, root, value)
            return buffer.getvalue()

        return encode

    def value_of_json(self, value: Any) -> Any:
        """Returns the value of its JSON form, as `consume` prints it."""
        self.prepare_to_write()
        assert self._written is not None
        try:
            return json_reader(self._written)(value)
        except ValueError as error:
            raise SerializationError(str(error)) from None
        except RecursionError:
            raise SerializationError("it is nested too deeply") from None

    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        from fastavro import schemaless_reader

        written = parsed(schema, parts)
        convert, copies = self._converters()[1], False
        reader: Any = None
        if self.schema is not None and (self.schema.text, own) != (schema.text, parts):
            to_read = parsed(self.schema, own)
            if to_read.root != written.root:
                reader, copies = with_python_defaults(to_read)
        if _is_bytes(written) and reader is None:
            return lambda data: data[skip:]
        guard, writer = guard_for(written), written.root
        copies = copies and convert is None  # a conversion makes new lists and dicts

        named: Any = {} if convert is None else {"return_record_name": True, "return_record_name_override": True}

        def decode(data: bytes) -> Any:
            if guard is not None:
                guard(data, skip)
            buffer = BytesIO(data)
            if skip:
                buffer.seek(skip)
            value = schemaless_reader(buffer, writer, reader, **named)
            if (end := buffer.tell()) != len(data):
                raise ValueError(f"{len(data) - end} bytes are left behind the value")
            if copies:
                value = copy.deepcopy(value)
            return value if convert is None else convert(value)

        return decode


def _has_map(schema: Any) -> bool:
    if isinstance(schema, dict):
        return schema.get("type") == "map" or any(map(_has_map, schema.values()))
    return isinstance(schema, list) and any(map(_has_map, schema))


def _is_bytes(schema: ParsedSchema) -> bool:
    root = schema.root
    if isinstance(root, dict) and root["type"] == "bytes":
        if root.get("logicalType") == "decimal":
            raise InvalidSchemaError(
                "avro: a decimal alone is not a schema of records", hint="put the decimal into a record"
            )
        return True
    return bool(root == "bytes")
