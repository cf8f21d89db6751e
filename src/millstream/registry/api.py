"""The protocol of schema registries, and the function that opens one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from millstream.config import Config

SchemaType: TypeAlias = Literal["AVRO", "PROTOBUF", "JSON"]
"""The types of schemas."""


class Reference(NamedTuple):
    """A schema that another one refers to.

    Attributes:
        name: How the schema refers to it: the full name of an Avro type, the path of a ``.proto`` file, or the URI of a
            JSON Schema.
        subject: The subject under which it is registered.
        version: Its version there.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry has it.

    Attributes:
        text: Its text. That of a Protobuf schema is a ``.proto`` file, or a ``FileDescriptorProto`` in base64.
        type: Its type.
        references: The schemas that it refers to.
    """

    text: str
    type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()


class Registered(NamedTuple):
    """A version of a subject.

    Attributes:
        id: The id of the schema, which records carry. The same schema has the same id under all subjects of a context.
        subject: The subject.
        version: The version of the subject, from 1.
        schema: The schema.
    """

    id: int
    subject: str
    version: int
    schema: Schema


class SchemaRegistry(Protocol):
    """A schema registry. Its methods can be called from several threads.

    A subject may belong to a context (``:.staging:orders-value``), which has its own ids. All methods raise a
    `RegistryError` when the registry cannot be reached or refuses a request.
    """

    def schema(self, id: int, subject: str | None = None) -> Schema:
        """Returns the schema of an id.

        Args:
            id: The id.
            subject: A subject of the context of the id; by default the default context.

        Raises:
            UnknownSchemaError: There is none.
        """

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Registers a schema as the next version of a subject, unless it is one of its versions, and returns its id.

        Args:
            subject: The subject.
            schema: The schema.
            normalize: Whether schemas that differ only in form (order of attributes, short names) are the same.

        Raises:
            InvalidSchemaError: It is not a schema, or a reference does not exist.
            IncompatibleSchemaError: It is not compatible with earlier versions of the subject.
        """

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Returns the version of a subject that has a schema.

        Raises:
            UnknownSchemaError: There is none.
        """

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject.

        Raises:
            UnknownSchemaError: There is no such subject.
        """

    def version(self, subject: str, version: int) -> Registered:
        """Returns a version of a subject.

        Raises:
            UnknownSchemaError: There is none, or it is deleted.
        """

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject that are not deleted, in ascending order.

        Raises:
            UnknownSchemaError: There is no such subject.
        """

    def subjects(self) -> list[str]:
        """Returns the subjects that are not deleted, in alphabetical order."""

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Returns why a schema is not compatible with earlier versions of a subject: an empty list if it is.

        Raises:
            InvalidSchemaError: It is not a schema, or a reference does not exist.
        """

    def compatibility(self, subject: str | None = None) -> str:
        """Returns the compatibility level of a subject, or the global one if the subject has none of its own."""

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Sets the compatibility level of a subject, or the global one.

        Args:
            level: ``NONE``, ``BACKWARD``, ``FORWARD``, ``FULL``, or one of the last three with ``_TRANSITIVE``.
            subject: The subject.
        """

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Deletes a version of a subject, or all, and returns the deleted versions.

        Ids of deleted versions are still known, unless they are deleted permanently.

        Raises:
            UnknownSchemaError: There is no such subject or version.
            RegistryError: Another schema refers to it.
        """

    def close(self) -> None:
        """Closes the registry."""


def open_registry(
    config: Mapping[str, Any] | Config,
    log_directory: Path | None = None,
    *,
    report: Callable[[str], None] | None = None,
) -> SchemaRegistry:
    """Opens the registry of a configuration, without a request to it.

    >>> import tempfile
    >>> registry = open_registry({}, Path(tempfile.mkdtemp()))
    >>> registry.register("age-value", Schema('"int"'))
    1
    >>> registry.latest("age-value")
    Registered(id=1, subject='age-value', version=1, schema=Schema(text='"int"', type='AVRO', references=()))

    Args:
        config: ``schema.registry.url`` and its settings. The environment may supply them: see `profiles`. Without a
            URL, the embedded registry of the data directory is used.
        log_directory: The data directory; by default that of the configuration.
        report: Receives a message when the registry is away and a request waits for it; by default, it is logged.

    Raises:
        ConfigError: A setting is invalid.
        SetupError: The client of the registry is not installed.
    """
    from millstream.config import Config  # noqa: PLC0415  (the protocol needs neither registry)
    from millstream.config.profiles import from_environment  # noqa: PLC0415
    from millstream.core.data_directory import data_directory  # noqa: PLC0415

    settings = Config({**Config(from_environment()).explicit, **Config(config).explicit})
    if settings["schema.registry.url"] is not None:
        from millstream.registry.confluent.registry import ConfluentRegistry  # noqa: PLC0415

        return ConfluentRegistry(settings, report)
    from millstream.registry.embedded import EmbeddedRegistry  # noqa: PLC0415

    return EmbeddedRegistry(data_directory(log_directory or settings["state.dir"]))
