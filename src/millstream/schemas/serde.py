"""The common part of the serdes with schemas: schema ids in records, schemas in the registry, and their caches."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from millstream.core.records import Headers
from millstream.errors import (
    DeserializationError,
    InvalidSchemaError,
    RegistryError,
    SerdeError,
    SerializationError,
    UnknownSchemaError,
)
from millstream.registry.api import Schema, SchemaRegistry, SchemaType
from millstream.schemas.options import SerdeOptions, defaults_of
from millstream.schemas.registries import ApplicationRegistry
from millstream.serde.api import Serde, SerdeContext
from millstream.serde.error_messages import cannot_read, cannot_write
from millstream.text.escaping import plain_text

T = TypeVar("T")
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]
Parts = tuple[tuple[str, Schema], ...]
"""The schemas that a schema refers to, directly or not, each after those that it refers to itself."""

MAGIC = b"\x00"
GUID_MAGIC = b"\x01"
PREFIX = 5
"""The bytes before the payload: the magic byte, and the id of the schema."""

_UNKNOWN_FOR = 10.0
"""Seconds after which the registry is asked again for an id that it did not have."""

_MOST_READERS = 1000


class SchemaSerde(Serde[T], Generic[T]):
    """A serde whose values have a schema.

    With a registry, a record begins with a zero byte and the id of its schema (4 bytes, big-endian), as Confluent's
    serializers write it. Each process asks the registry once for each schema, and caches what it needs to read and
    write.
    """

    type: ClassVar[SchemaType]

    def __init__(self, schema: Schema | None, options: SerdeOptions, python_type: object = object) -> None:
        self.python_type = python_type
        self.schema = schema
        self._options = options
        self._context = SerdeContext(None, is_key=False)
        self._origin: str | None = None
        self.recorded: Any = None
        self._forget()
        self.uses_headers = not options.bare

    def _forget(self) -> None:
        self._write: Encode | None = None
        self._readers: dict[bytes, Decode] = {}
        self._unknown: dict[bytes, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def bind(self, context: SerdeContext) -> Self:
        """Returns the serde for a topic. Schemas without a topic of their own come from the first one."""
        if self._options.bare:
            return self
        bound = object.__new__(type(self))
        bound.__setstate__(self.__getstate__())
        bound._context = context._replace(registry=context.registry or self._context.registry)
        bound._origin = self._origin or context.topic
        subject = bound.known_subject
        if context.recorded is not None:
            bound.recorded = None if subject is None else context.recorded.get(subject)
        elif subject != self.known_subject:
            bound.recorded = None
        return bound

    @property
    def is_bare(self) -> bool:
        """Whether values are written without the id of a schema."""
        return self._options.bare

    @property
    def is_key(self) -> bool:
        """Whether the serde is bound to keys."""
        return self._context.is_key

    @property
    def chooses_schema(self) -> bool:
        """Whether values are written with the schema of the serde, and not with one that the registry has."""
        return self.schema is not None and not _either(self._options.use_latest, defaults_of(self._context).use_latest)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__getstate__() == cast("Self", other).__getstate__()

    def __hash__(self) -> int:
        return hash((self.name, self._context.topic))

    # ----- the formats -----------------------------------------------------------------------------------------

    @abstractmethod
    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        """Returns the function that writes a value with a schema, behind a prefix."""

    @abstractmethod
    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        """Returns the function that reads values.

        Args:
            schema: The schema with which they were written.
            parts: The schemas to which it refers.
            own: The schemas to which the serde's own schema refers.
            skip: The number of bytes before the payload.
        """

    @abstractmethod
    def _record_name(self) -> str | None:
        """The full name of the serde's own record, if it has one."""

    def own_references(self) -> tuple[tuple[str, str], ...]:
        """The names and texts of the schemas that the serde's own schema needs, as far as the serde has them."""
        return ()

    # ----- writing ---------------------------------------------------------------------------------------------

    def serialize(self, value: T | None) -> bytes | None:
        if value is None:
            return None
        if (write := self._write) is None:
            write = self.prepare_to_write()
        try:
            return write(value)
        except SerdeError:
            raise
        except Exception as error:  # the libraries raise many types, and a user's class may raise anything
            raise cannot_write(self.name, value, _reason(error)) from error

    def prepare_to_write(self) -> Encode:
        """Registers the schema to write with, or asks the registry for it, unless that has been done."""
        if self._write is None:
            self._write = self._writer()
        return self._write

    def value_of_json(self, value: Any) -> Any:
        """Returns the value of plain JSON data, for `serialize`.

        Raises:
            SerializationError: It does not fit the schema. The message names the field.
        """
        return value

    def _writer(self) -> Encode:
        if self._options.bare:
            assert self.schema is not None
            return self._encoder(self.schema, (), b"")
        registry = self._registry()
        schema_id, schema = self._to_write(registry)
        prefix = MAGIC + schema_id.to_bytes(PREFIX - 1, "big")
        return self._encoder(schema, parts_of(schema, registry), prefix)

    def _to_write(self, registry: SchemaRegistry) -> tuple[int, Schema]:
        """Returns the schema to write with, and its id: one request, or two, in the life of the serde."""
        if self.recorded is not None and self.recorded.id is not None:
            return self.recorded.id, registry.schema(self.recorded.id, self.known_subject)
        options, defaults = self._options, defaults_of(self._context)
        subject = self.subject
        if _either(options.use_latest, defaults.use_latest):
            latest = registry.latest(subject)
            return latest.id, latest.schema
        normalize = _either(options.normalize, defaults.normalize)
        register = _either(options.auto_register, defaults.auto_register)
        schema = self._complete_schema(registry, register=register)
        if schema is None:
            try:
                latest = registry.latest(subject)
                return latest.id, latest.schema
            except UnknownSchemaError:
                schema = self._schema_of_origin(registry, subject)
        if register:
            return registry.register(subject, schema, normalize=normalize), schema
        return registry.lookup(subject, schema, normalize=normalize).id, schema

    def id_to_write(self) -> int:
        """Returns the id of the schema with which values are written; registers the schema, if it is to.

        Raises:
            SerializationError: There is no schema to write with.
            SchemaError: The registry does not have it, or refuses it.
        """
        return self._to_write(self._registry())[0]

    def id_of_schema(self) -> int | None:
        """Returns the id of the serde's own schema; None if the registry does not have it. Registers nothing."""
        registry = self._registry()
        normalize = _either(self._options.normalize, defaults_of(self._context).normalize)
        try:
            schema = self._complete_schema(registry, register=False)
            return None if schema is None else registry.lookup(self.subject, schema, normalize=normalize).id
        except UnknownSchemaError:
            return None

    def all_references(self) -> tuple[tuple[str, str], ...]:
        """Returns the names and texts of the schemas that the serde's own schema refers to."""
        if self.schema is None or not self.schema.references or self.is_bare:
            return self.own_references()
        return tuple((name, part.text) for name, part in parts_of(self.schema, self._registry()))

    def versions(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """Returns the schemas of the serde's subject, each with the names and texts of those that it refers to."""
        registry = self._registry()
        try:
            schemas = [registry.version(self.subject, number).schema for number in registry.versions(self.subject)]
        except UnknownSchemaError:
            return ()
        return tuple(
            (schema.text, tuple((name, part.text) for name, part in parts_of(schema, registry))) for schema in schemas
        )

    def _complete_schema(self, registry: SchemaRegistry, *, register: bool) -> Schema | None:
        """Returns the serde's own schema, with its references, which are registered if they are to."""
        return self.schema

    def _schema_of_origin(self, registry: SchemaRegistry, subject: str) -> Schema:
        """Returns the latest schema of the topic from which the values come."""
        try:
            if self._origin is not None and self._origin != self._context.topic:
                origin = self._options.subject(self._context, self._origin, None, self.name)
                return registry.latest(origin).schema
        except UnknownSchemaError:
            pass
        raise SerializationError(
            f"{self.name} serde: there is no schema to write with: subject {subject!r} has none",
            hint=f"give the serde a type or a schema, or register a schema under {subject!r}",
        )

    @property
    def subject(self) -> str:
        """The subject of the schema of this topic."""
        return self._options.subject(self._context, self._context.topic, self._record_name(), self.name)

    @property
    def known_subject(self) -> str | None:
        """The same; None if the topic, or the name of the record, is not known."""
        try:
            return None if self.is_bare else self.subject
        except SerializationError:
            return None

    def _registry(self) -> SchemaRegistry:
        registry = self._context.registry
        if not isinstance(registry, ApplicationRegistry):
            raise RegistryError(
                f"the {self.name} serde has no schema registry: it is not used by an application",
                hint=f"call bind(…), or give {self.name}(…, registry=None) for values without a schema id",
            )
        return registry.open()

    # ----- reading ---------------------------------------------------------------------------------------------

    def deserialize(self, data: bytes | None) -> T | None:
        if data is None:
            return None
        prefix = b"" if self._options.bare else data[:PREFIX]
        if (read := self._readers.get(prefix)) is None:
            read = self._reader(prefix, data)
        return self._read(read, data)

    def deserialize_with_headers(self, data: bytes | None, headers: Headers) -> T | None:
        """Reads a value whose schema id is in a header, if there is such a header."""
        if not headers or data is None:
            return self.deserialize(data)
        return self.deserialize(self._prefix_in(headers) + data)

    def _prefix_in(self, headers: Headers) -> bytes:
        """Returns the id of the schema in the headers, as a prefix of the payload; empty if there is none."""
        header = "__key_schema_id" if self._context.is_key else "__value_schema_id"
        return next((value for name, value in headers if name == header and value is not None), b"")

    def schema_id(self, data: bytes | None, headers: Headers) -> int | None:
        """Returns the id of the schema of a record."""
        if data is None or self._options.bare:
            return None
        prefix = (self._prefix_in(headers) + data)[:PREFIX]
        return int.from_bytes(prefix[1:], "big") if prefix[:1] == MAGIC and len(prefix) == PREFIX else None

    def _read(self, read: Decode, data: bytes) -> T:
        try:
            value: T = read(data)
        except SerdeError:
            raise
        except Exception as error:  # as in `serialize`
            raise cannot_read(self.name, data, _reason(error)) from error
        return value

    def _reader(self, prefix: bytes, data: bytes) -> Decode:
        """Returns the function that reads values with the schema of a prefix."""
        if self._options.bare:
            assert self.schema is not None
            read = self._decoder(self.schema, (), (), 0)
        else:
            registry = self._registry()
            schema = self._schema_of(prefix, data, registry)
            own = () if self.schema is None else parts_of(self.schema, registry)
            try:
                read = self._decoder(schema, parts_of(schema, registry), own, PREFIX)
            except InvalidSchemaError as error:
                raise cannot_read(self.name, data, error.message, hint="is the registry another one?") from error
        if len(self._readers) >= _MOST_READERS:
            self._readers.clear()
        self._readers[prefix] = read
        return read

    def _schema_of(self, prefix: bytes, data: bytes, registry: SchemaRegistry) -> Schema:
        if prefix[:1] == GUID_MAGIC:
            raise cannot_read(
                self.name,
                data,
                "its header has a global id of a schema, with which the registry cannot be asked",
                hint="let the producer write the id of the schema: schema.id.serializer of its configuration",
            )
        if prefix[:1] != MAGIC or len(prefix) != PREFIX:
            raise cannot_read(
                self.name,
                data,
                "it does not begin with a zero byte and the id of a schema",
                hint=f"was it written without a registry? {self.name}(…, registry=None) reads such values",
            )
        schema_id = int.from_bytes(prefix[1:], "big")
        now = time.monotonic()
        if now - self._unknown.get(prefix, now - _UNKNOWN_FOR) < _UNKNOWN_FOR:
            raise self._no_schema(schema_id, data)
        try:
            subject = None if self._context.topic is None else self.known_subject
            schema = registry.schema(schema_id, subject)
        except UnknownSchemaError as error:
            if len(self._unknown) >= _MOST_READERS:
                self._unknown.clear()
            self._unknown[prefix] = now
            raise self._no_schema(schema_id, data) from error
        if schema.type != self.type:
            raise cannot_read(
                self.name, data, f"schema {schema_id} is of type {schema.type}", hint="use the serde of that type"
            )
        return schema

    def _no_schema(self, schema_id: int, data: bytes) -> DeserializationError:
        hint = "is schema.registry.url the registry of its producer?"
        return cannot_read(self.name, data, f"the registry has no schema {schema_id}", hint=hint)


_OF_THIS_PROCESS = frozenset({"_write", "_written", "_readers", "_unknown"})


def parts_of(schema: Schema, registry: SchemaRegistry) -> Parts:
    """Returns the schemas that a schema refers to, directly or not."""
    parts: dict[str, Schema] = {}

    def add(referring: Schema, above: tuple[str, ...]) -> None:
        for reference in referring.references:
            if reference.name in above:
                raise InvalidSchemaError(f"the schema {reference.name!r} refers to itself")
            if reference.name not in parts:
                target = registry.version(reference.subject, reference.version).schema
                add(target, (*above, reference.name))
                parts[reference.name] = target

    add(schema, ())
    return tuple(parts.items())


def _either(own: bool | None, default: bool) -> bool:
    return default if own is None else own


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return plain_text(error) or type(error).__name__
