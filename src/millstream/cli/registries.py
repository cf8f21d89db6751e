"""The schema registry that a command works with, and serdes whose schemas are in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from millstream.cli.exits import CommandError, UsageError
from millstream.cli.options import cluster_settings
from millstream.cli.printing import print_note
from millstream.cli.serdes import serde_named
from millstream.config import Config
from millstream.config.profiles import from_environment
from millstream.errors import SerializationError
from millstream.schemas.json_values import TextOrSchema
from millstream.schemas.registries import ApplicationRegistry, forget, registry_for
from millstream.schemas.serde import SchemaSerde
from millstream.serde import Serde, SerdeContext

if TYPE_CHECKING:
    from millstream.registry import SchemaRegistry

Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="A registry with Confluent's API. Default: $MILLSTREAM_SCHEMA_REGISTRY_URL, else the data directory's.",
    ),
]

_PATIENCE_MS = 10_000
_FORMATS = {"avro": "avro", "protobuf": "protobuf", "json_schema": "json_schema", "json-schema": "json_schema"}


def _settings(url: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"schema.registry.api.timeout.ms": _PATIENCE_MS, **cluster_settings()}
    return settings if url is None else {**settings, "schema.registry.url": url}


def _open(url: str | None, data: str | None) -> SchemaRegistry:
    from millstream.core.data_directory import data_directory
    from millstream.registry import open_registry

    return open_registry(_settings(url), data_directory(data), report=print_note)


@contextmanager
def opened_registry(url: str | None, data: str | None) -> Iterator[SchemaRegistry]:
    """Opens the registry that the options name, else that of the environment, else that of the data directory."""
    registry = _open(url, data)
    try:
        yield registry
    finally:
        registry.close()


class SchemaFile(NamedTuple):
    """The schema of keys or values that the command line names.

    Attributes:
        file: A file of type .avsc, .json or .proto.
        message: The message of a .proto file.
    """

    file: str | None = None
    message: str | None = None


_NO_FILE = SchemaFile()


class SchemaSerdes:
    """The serdes that options name, for a topic. The registry is opened when a serde first needs it."""

    def __init__(self, topic: str, url: str | None, data: str | None) -> None:
        self._topic = topic
        self._url, self._data = url, data
        self._registry: SchemaRegistry | None = None
        self._reference: ApplicationRegistry | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        if self._registry is not None and self._reference is not None:
            forget(self._reference)
            self._registry.close()

    def named(self, name: str | None, option: str, *, is_key: bool, schema: SchemaFile = _NO_FILE) -> Serde[Any]:
        """Returns the serde of a name: one with a schema, or any other."""
        made = False

        def make(format_: str) -> Serde[Any]:
            nonlocal made
            made = True
            return _serde(format_, schema)

        serde = serde_named(name, option, {name: partial(make, format_) for name, format_ in _FORMATS.items()})
        if schema != _NO_FILE and not made:
            prefix = "--key-" if is_key else "--"
            given = f"{prefix}schema" if schema.file is not None else f"{prefix}message"
            raise UsageError(
                f"{given}: the serde of {'keys' if is_key else 'values'} has no schema",
                hint=f"add --{'key' if is_key else 'value'} avro, protobuf or json_schema",
            )
        return self._bound(serde, is_key=is_key) if made else serde

    def by_id(self, *, is_key: bool) -> Serde[Any]:
        """Returns the serde that reads records with the schema whose id they carry, and all others as text."""

        def serde_of(type_: str) -> Serde[Any]:
            return self._bound(_serde({"JSON": "json_schema"}.get(type_, type_.lower()), _NO_FILE), is_key=is_key)

        return TextOrSchema(self._open, serde_of, is_key=is_key)

    def _bound(self, serde: Serde[Any], *, is_key: bool) -> Serde[Any]:
        self._open()
        return serde.bind(SerdeContext(self._topic, is_key, self._reference))

    def _open(self) -> SchemaRegistry:
        if self._registry is None:
            self._registry = _open(self._url, self._data)
            config = Config({**Config(from_environment()).explicit, **_settings(self._url)})
            self._reference = registry_for(self._registry, config)
        return self._registry


def prepare_to_write(serde: Serde[Any]) -> None:
    """Registers the schema of a serde before a record is read, so that a refusal is not the fault of a line."""
    serde = getattr(serde, "inner", serde)
    if not isinstance(serde, SchemaSerde):
        return
    try:
        serde.prepare_to_write()
    except SerializationError as error:
        option = "--key-schema" if serde.is_key else "--schema"
        hint = f"add {option} FILE, or: millstream schemas register {serde.subject} FILE"
        raise CommandError(error.message, hint=hint) from None


def _serde(name: str, schema: SchemaFile) -> Serde[Any]:
    import millstream

    if schema.message is not None and (name != "protobuf" or schema.file is None):
        raise UsageError("--message and --key-message name a message of a .proto file", hint="add --schema FILE")
    file = None if schema.file is None else Path(schema.file)
    if name == "protobuf":
        return millstream.protobuf(file, schema.message)
    return millstream.avro(file) if name == "avro" else millstream.json_schema(file)
