"""The schemas of an application's keys and values, with what its state records of them.

A key is written with one schema id as long as the application has its state: another id would change the bytes of the
key, and so its partition and its row. The state records the id at the first start. It also records the schemas with
which rows were written, because a row stays as it is until its key changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millstream.config import Config
from millstream.errors import LogError, SerializationError, UnknownSchemaError
from millstream.log.opening import log_location, open_location
from millstream.optimize.bind_serdes import bind_serdes
from millstream.plan.schemas import written_keys
from millstream.plan.stateless import Repartition
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.schemas.recorded import SchemaRecord, plain_version, schema_serdes
from millstream.schemas.serde import SchemaSerde
from millstream.stages import Topology, cut


def with_recorded_schemas(topology: Topology, state: ApplicationState, *, register: bool) -> Topology:
    """Returns a topology whose serdes know what the state of the application records of their subjects.

    Args:
        topology: The topology.
        state: The recorded state of the application.
        register: Whether schemas of keys that have no id yet are registered. A comparison registers nothing.

    Raises:
        SchemaError: The registry refuses a schema of keys, or does not have it and may not register it.
        RegistryError: The registry does not answer.
    """
    recorded = _recorded(state.published_plan or state.started_plan or {})
    records: dict[str, SchemaRecord] = {}
    for serde, is_stored in _serdes(topology):
        subject = serde.known_subject
        if subject is not None and subject not in records:
            records[subject] = _record(serde, recorded.get(subject), is_stored=is_stored, register=register)
    return cut(bind_serdes(topology.plan, recorded=records)) if records else topology


def with_schemas_of(topology: Topology, config: Config, store: str) -> Topology:
    """Returns a topology with which a store is read: its keys have the recorded id of their schema."""
    keys = [serde for spec in topology.stores if spec.name == store for serde in schema_serdes(spec.key)]
    if all(serde.is_bare for serde in keys):
        return topology
    try:
        with open_location(log_location(config), create=False) as log:
            state = read_state(log, topology.application_id)
    except LogError:
        return topology  # the query says what is wrong with the log
    return with_recorded_schemas(topology, state, register=False)


def _serdes(topology: Topology) -> Iterator[tuple[SchemaSerde[Any], bool]]:
    """The serdes with schemas of stores, of repartition topics, and of other keys; and whether a store has it."""
    for spec in topology.stores:
        yield from ((serde, True) for part in (spec.key, spec.value) for serde in schema_serdes(part))
    for node in topology.plan.nodes:
        values = [node.value] if isinstance(node, Repartition) else []
        for item in (*written_keys(node), *values):
            yield from ((serde, False) for serde in schema_serdes(item))


def _recorded(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The schemas that a recorded plan has, by subject."""
    holders = [*plan.get("stores", {}).values(), *(each["options"] for each in plan.get("operators", {}).values())]
    return {
        schema["subject"]: schema
        for holder in holders
        for part in ("key_schemas", "value_schemas")
        for schema in holder.get(part, ())
        if "subject" in schema
    }


def _record(
    serde: SchemaSerde[Any], before: Mapping[str, Any] | None, *, is_stored: bool, register: bool
) -> SchemaRecord:
    references = serde.all_references()
    if serde.is_key:
        return SchemaRecord(_key_id(serde, before or {}, register=register), references)
    if before is None or serde.schema is None or not is_stored:
        return SchemaRecord(None, references)
    # Rows of a serde without a schema of its own were written with the schemas of the subject.
    earlier = before["versions"] if "versions" in before else [plain_version(*each) for each in serde.versions()]
    return SchemaRecord(None, references, tuple(earlier))


def _key_id(serde: SchemaSerde[Any], before: Mapping[str, Any], *, register: bool) -> int | None:
    """The id with which keys are written: the recorded one, unless the serde has another schema now."""
    recorded: int | None = before.get("id")
    try:
        if not serde.chooses_schema:
            return recorded if recorded is not None or not register else serde.id_to_write()
        if recorded is None:
            return serde.id_to_write() if register else serde.id_of_schema()
    except (SerializationError, UnknownSchemaError):
        if serde.schema is not None:
            raise
        return None  # no producer has registered a schema yet: the next start records its id
    assert serde.schema is not None
    own = plain_version(serde.schema.text, serde.all_references())
    # An unchanged schema that the registry has lost keeps its id: writing a key says that the registry lacks it.
    return serde.id_of_schema() if own != before.get("versions", [None])[-1] else recorded
