"""What holds for every registry."""

from __future__ import annotations

import json

import pytest

from millstream.errors import InvalidSchemaError, RegistryError, UnknownSchemaError
from millstream.registry import Reference, Schema, SchemaRegistry

ORDER = Schema('{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}')
NOTED = Schema(
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":"string","default":""}]}'
)
OTHER = Schema('{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}')


def same(one: Schema, other: Schema) -> bool:
    """Whether two schemas are equal but for white space in their texts."""
    return (json.loads(one.text), one.type, one.references) == (json.loads(other.text), other.type, other.references)


def test_a_schema_is_registered_once(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER)
    assert first > 0
    assert registry.register(subject, ORDER) == first
    assert registry.versions(subject) == [1]
    assert same(registry.schema(first), ORDER)
    assert same(registry.schema(first, subject), ORDER)


def test_versions_count_from_one_and_ids_grow(registry: SchemaRegistry, subject: str) -> None:
    first, second = registry.register(subject, ORDER), registry.register(subject, NOTED)
    assert second > first
    assert registry.versions(subject) == [1, 2]
    latest = registry.latest(subject)
    assert (latest.id, latest.subject, latest.version) == (second, subject, 2)
    assert same(latest.schema, NOTED)
    earlier = registry.version(subject, 1)
    assert (earlier.id, earlier.version) == (first, 1)
    assert same(earlier.schema, ORDER)
    assert registry.register(subject, ORDER) == first
    assert registry.versions(subject) == [1, 2]


def test_lookup_finds_the_version_of_a_schema(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER)
    registry.register(subject, NOTED)
    found = registry.lookup(subject, ORDER)
    assert (found.id, found.subject, found.version) == (first, subject, 1)
    with pytest.raises(UnknownSchemaError):
        registry.lookup(subject, OTHER)
    with pytest.raises(UnknownSchemaError):
        registry.lookup(f"no-{subject}", ORDER)


def test_a_schema_has_the_same_id_under_all_subjects(registry: SchemaRegistry, subject: str) -> None:
    assert registry.register(subject, ORDER) == registry.register(f"copy-of-{subject}", ORDER)
    assert registry.versions(f"copy-of-{subject}") == [1]


def test_white_space_does_not_make_a_new_version(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER)
    assert registry.register(subject, Schema(json.dumps(json.loads(ORDER.text), indent=2))) == first
    assert registry.versions(subject) == [1]


def test_subjects_are_listed(registry: SchemaRegistry, subject: str) -> None:
    before = registry.subjects()
    registry.register(f"b-{subject}", ORDER)
    registry.register(f"a-{subject}", ORDER)
    assert sorted({*before, f"a-{subject}", f"b-{subject}"}) == registry.subjects()


def test_subjects_may_have_any_printable_name(registry: SchemaRegistry, subject: str) -> None:
    name = f"{subject} with/ä?&%=#"
    registry.register(name, ORDER)
    assert name in registry.subjects()
    assert registry.latest(name).subject == name


def test_unknown_ids_subjects_and_versions_are_errors(registry: SchemaRegistry, subject: str) -> None:
    with pytest.raises(UnknownSchemaError, match="987654"):
        registry.schema(987_654)
    with pytest.raises(UnknownSchemaError, match=subject):
        registry.latest(subject)
    with pytest.raises(UnknownSchemaError, match=subject):
        registry.versions(subject)
    registry.register(subject, ORDER)
    with pytest.raises(UnknownSchemaError, match="version 2"):
        registry.version(subject, 2)


@pytest.mark.parametrize("text", ["", "{", '"nothing"', '{"type": "record", "name": "A"}'])
def test_a_text_that_is_no_schema_is_refused(text: str, registry: SchemaRegistry, subject: str) -> None:
    with pytest.raises(InvalidSchemaError):
        registry.register(subject, Schema(text))


# ----- references ---------------------------------------------------------------------------------------------------

ADDRESS = Schema('{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}')


def customer(*references: Reference) -> Schema:
    text = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"to","type":"shop.Address"}]}'
    return Schema(text, references=references)


def test_a_schema_refers_to_another_one(registry: SchemaRegistry, subject: str) -> None:
    registry.register(f"address-{subject}", ADDRESS)
    referring = customer(Reference("shop.Address", f"address-{subject}", 1))
    first = registry.register(subject, referring)
    assert same(registry.schema(first), referring)
    assert same(registry.latest(subject).schema, referring)
    assert registry.lookup(subject, referring).version == 1


def test_a_reference_must_exist(registry: SchemaRegistry, subject: str) -> None:
    with pytest.raises(InvalidSchemaError):
        registry.register(subject, customer(Reference("shop.Address", f"address-{subject}", 1)))
    with pytest.raises(InvalidSchemaError):
        registry.register(subject, customer())


def test_a_referenced_version_cannot_be_deleted(registry: SchemaRegistry, subject: str) -> None:
    registry.register(f"address-{subject}", ADDRESS)
    registry.register(subject, customer(Reference("shop.Address", f"address-{subject}", 1)))
    with pytest.raises(RegistryError, match=f"address-{subject}"):
        registry.delete(f"address-{subject}", 1)
    registry.delete(subject)
    assert registry.delete(f"address-{subject}", 1) == [1]


# ----- normalization ------------------------------------------------------------------------------------------------

REORDERED = Schema('{"name":"Order","type":"record","fields":[{"type":{"type":"long"},"name":"id"}]}')


def test_normalized_schemas_that_differ_in_form_are_one_version(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER, normalize=True)
    assert registry.register(subject, REORDERED, normalize=True) == first
    assert registry.lookup(subject, REORDERED, normalize=True).id == first
    assert registry.versions(subject) == [1]


# ----- deletion -----------------------------------------------------------------------------------------------------


def test_a_deleted_version_is_hidden_but_its_id_is_known(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER)
    second = registry.register(subject, NOTED)
    assert registry.delete(subject, 2) == [2]
    assert registry.versions(subject) == [1]
    assert registry.latest(subject).id == first
    assert same(registry.schema(second), NOTED)
    with pytest.raises(UnknownSchemaError):
        registry.version(subject, 2)
    with pytest.raises(UnknownSchemaError):
        registry.lookup(subject, NOTED)


def test_a_deleted_schema_that_is_registered_again_has_its_id_and_a_new_version(
    registry: SchemaRegistry, subject: str
) -> None:
    registry.register(subject, ORDER)
    second = registry.register(subject, NOTED)
    registry.delete(subject, 2)
    assert registry.register(subject, NOTED) == second
    assert registry.versions(subject) == [1, 3]


def test_a_deleted_subject_is_hidden(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER)
    registry.register(subject, NOTED)
    assert registry.delete(subject) == [1, 2]
    assert subject not in registry.subjects()
    with pytest.raises(UnknownSchemaError):
        registry.latest(subject)
    with pytest.raises(UnknownSchemaError):
        registry.delete(subject)
    assert same(registry.schema(first), ORDER)


def test_a_permanently_deleted_subject_starts_again(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, ORDER)
    registry.register(subject, NOTED)
    assert registry.delete(subject, permanent=True) == [1, 2]
    assert subject not in registry.subjects()
    again = registry.register(subject, OTHER)
    assert again > first
    assert registry.versions(subject) == [1]


def test_a_version_is_deleted_permanently(registry: SchemaRegistry, subject: str) -> None:
    registry.register(subject, ORDER)
    registry.register(subject, NOTED)
    assert registry.delete(subject, 1, permanent=True) == [1]
    assert registry.versions(subject) == [2]


def test_deletion_of_what_does_not_exist_is_an_error(registry: SchemaRegistry, subject: str) -> None:
    with pytest.raises(UnknownSchemaError, match=subject):
        registry.delete(subject)
    with pytest.raises(UnknownSchemaError, match=subject):
        registry.delete(subject, permanent=True)
    registry.register(subject, ORDER)
    with pytest.raises(UnknownSchemaError):
        registry.delete(subject, 7)


def test_a_deleted_version_is_not_compared(comparing: SchemaRegistry, subject: str) -> None:
    comparing.register(subject, ORDER)
    assert comparing.problems(subject, OTHER)
    comparing.delete(subject)
    assert comparing.problems(subject, OTHER) == []


# ----- compatibility ------------------------------------------------------------------------------------------------


def test_a_subject_without_a_level_has_the_global_one(comparing: SchemaRegistry, subject: str) -> None:
    assert comparing.compatibility() == "BACKWARD"
    comparing.register(subject, ORDER)
    assert comparing.problems(subject, OTHER)
    assert comparing.compatibility(subject) == "BACKWARD"


def test_a_subject_has_its_own_level(comparing: SchemaRegistry, subject: str) -> None:
    comparing.register(subject, ORDER)
    comparing.set_compatibility("full_transitive", subject)
    assert comparing.compatibility(subject) == "FULL_TRANSITIVE"
    assert comparing.compatibility() == "BACKWARD"
    with pytest.raises(RegistryError, match="BACKWORD"):
        comparing.set_compatibility("BACKWORD", subject)


def test_a_subject_without_checks_overrides_the_global_level(comparing: SchemaRegistry, subject: str) -> None:
    comparing.register(subject, ORDER)
    comparing.set_compatibility("NONE", subject)
    assert comparing.problems(subject, OTHER) == []


def test_a_level_is_set_before_the_first_version(comparing: SchemaRegistry, subject: str) -> None:
    comparing.set_compatibility("NONE", subject)
    assert comparing.compatibility(subject) == "NONE"


def test_a_new_subject_has_no_problems(comparing: SchemaRegistry, subject: str) -> None:
    assert comparing.problems(subject, ORDER) == []


# ----- contexts -----------------------------------------------------------------------------------------------------


def test_a_context_has_its_own_subjects(registry: SchemaRegistry, subject: str) -> None:
    name = f":.staging:{subject}"
    first = registry.register(name, ORDER)
    assert same(registry.schema(first, name), ORDER)
    assert registry.latest(name).subject == name
    assert subject not in registry.subjects()
    registry.register(subject, OTHER)
    assert same(registry.latest(name).schema, ORDER)
    assert registry.versions(subject) == [1]


def test_a_context_has_its_own_ids(registry: SchemaRegistry, subject: str) -> None:
    registry.register(subject, OTHER)
    new = Schema(json.dumps({"type": "fixed", "name": subject.replace("-", "_"), "size": 1}))
    assert registry.register(f":.of-{subject}:{subject}", new) == 1
