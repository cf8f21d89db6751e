"""The options that the serdes of all formats have, and the names of subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from millstream.errors import ConfigError, SerializationError, suggestion
from millstream.registry.api import Reference
from millstream.schemas.registries import ApplicationRegistry, SerdeDefaults
from millstream.serde.api import SerdeContext

Strategy: TypeAlias = Literal["TopicName", "RecordName", "TopicRecordName"]
STRATEGIES = ("TopicName", "RecordName", "TopicRecordName")

References: TypeAlias = Sequence[Reference | tuple[str, str, int]]
"""The schemas that a schema refers to, each by name, subject and version."""


class SchemaOptions(TypedDict, total=False):
    """Options of `avro`, `protobuf` and `json_schema`.

    Attributes:
        registry: None: values are written without the id of a schema, and no registry is used.
        references: The schemas that the schema refers to: name, subject and version of each.
        subject_name_strategy: ``TopicName``, ``RecordName`` or ``TopicRecordName``.
        auto_register_schemas: Whether the schema is registered.
        use_latest_version: Whether values are written with the latest version of the subject.
        normalize_schemas: Whether the registry compares schemas without regard to their form.
    """

    registry: None
    references: References
    subject_name_strategy: Strategy
    auto_register_schemas: bool
    use_latest_version: bool
    normalize_schemas: bool


class SerdeOptions(NamedTuple):
    """Checked options. None: the configuration decides."""

    bare: bool = False
    references: tuple[Reference, ...] = ()
    strategy: str | None = None
    auto_register: bool | None = None
    use_latest: bool | None = None
    normalize: bool | None = None

    def subject(self, context: SerdeContext, topic: str | None, record: str | None, serde: str) -> str:
        """Returns the subject of a schema.

        Args:
            context: Where the serde is used.
            topic: The topic.
            record: The full name of the record.
            serde: The name of the serde, for errors.

        Raises:
            SerializationError: The strategy needs a topic or a record name, and there is none.
        """
        defaults = defaults_of(context)
        strategy = self.strategy or (defaults.key_strategy if context.is_key else defaults.value_strategy)
        if topic is None and strategy != "RecordName":
            raise SerializationError(
                f"{serde} serde: the subject of its schema depends on the topic, which is not known here",
                hint="give subject_name_strategy='RecordName', or write to one topic",
            )
        if strategy == "TopicName":
            return f"{topic}-{'key' if context.is_key else 'value'}"
        if record is None:
            raise SerializationError(
                f"{serde} serde: the subject of its schema depends on the name of the record, which is not known",
                hint=f"give {serde} a schema with a name, or subject_name_strategy='TopicName'",
            )
        return record if strategy == "RecordName" else f"{topic}-{record}"


def checked(serde: str, options: Mapping[str, Any], *, has_schema: bool) -> SerdeOptions:
    """Checks the options of a serde.

    Raises:
        ConfigError: One is unknown, or has a wrong value.
    """
    for name in options:
        if name not in SchemaOptions.__annotations__:
            hint = suggestion(name, SchemaOptions.__annotations__)
            raise ConfigError(f"{serde}: there is no option {name!r}", hint=hint)
    if "registry" in options and options["registry"] is not None:
        raise ConfigError(
            f"{serde}: registry={options['registry']!r}",
            hint="registry=None writes values without a schema id; the configuration names the registry: "
            "schema.registry.url",
        )
    strategy = options.get("subject_name_strategy")
    if strategy is not None and strategy not in STRATEGIES:
        hint = suggestion(str(strategy), STRATEGIES) or f"use one of: {', '.join(STRATEGIES)}"
        raise ConfigError(f"{serde}: there is no subject name strategy {strategy!r}", hint=hint)
    flags = [options.get(name) for name in ("auto_register_schemas", "use_latest_version", "normalize_schemas")]
    for flag in flags:
        if flag is not None and not isinstance(flag, bool):
            raise ConfigError(f"{serde}: {flag!r} is neither True nor False")
    bare = "registry" in options
    references = tuple(Reference(*reference) for reference in options.get("references", ()))
    if bare and not has_schema:
        raise ConfigError(f"{serde}: without a registry it needs a schema", hint=f"give {serde}(schema, registry=None)")
    if references and (bare or not has_schema):
        raise ConfigError(f"{serde}: references are schemas of a registry to which a schema refers")
    return SerdeOptions(bare, references, strategy, *flags)


def defaults_of(context: SerdeContext) -> SerdeDefaults:
    """The options that the configuration sets."""
    registry = context.registry
    return registry.defaults if isinstance(registry, ApplicationRegistry) else SerdeDefaults()
