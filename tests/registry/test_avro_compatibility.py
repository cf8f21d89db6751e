from __future__ import annotations

import json

import pytest
from tests.registry.avro_cases import CASES, Case, array, field, fixed, record

from millstream.errors import IncompatibleSchemaError
from millstream.registry import Schema, SchemaRegistry
from millstream.registry.embedded import EmbeddedRegistry
from millstream.registry.formats.avro_compatibility import compare_avro
from millstream.registry.formats.avro_parser import parse_avro
from millstream.registry.formats.problems import Sides


def avro(node: object) -> Schema:
    return Schema(json.dumps(node))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_change_is_judged_in_both_directions(case: Case, comparing: SchemaRegistry, subject: str) -> None:
    comparing.set_compatibility("BACKWARD", subject)
    comparing.register(subject, avro(case.old))
    assert bool(comparing.problems(subject, avro(case.new))) is (case.backward is not None)
    comparing.set_compatibility("FORWARD", subject)
    assert bool(comparing.problems(subject, avro(case.new))) is (case.forward is not None)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_problem_names_the_path_of_the_field(case: Case, embedded: EmbeddedRegistry) -> None:
    embedded.register("orders-value", avro(case.old))
    for level, path in (("BACKWARD", case.backward), ("FORWARD", case.forward)):
        embedded.set_compatibility(level)
        problems = embedded.problems("orders-value", avro(case.new))
        assert [problem.split(": ")[0] for problem in problems] == ([] if path is None else [path])
    full = [path for path in (case.backward, case.forward) if path is not None]
    embedded.set_compatibility("FULL")
    assert [problem.split(": ")[0] for problem in embedded.problems("orders-value", avro(case.new))] == full


def decimal(scale: int) -> dict[str, object]:
    return {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}


def test_a_decimal_of_another_scale_is_refused(embedded: EmbeddedRegistry) -> None:
    """As the specification of Avro demands; Confluent's registry and Apicurio accept it."""
    embedded.register("prices-value", avro(record(field("price", decimal(2)))))
    (problem,) = embedded.problems("prices-value", avro(record(field("price", decimal(3)))))
    assert problem == "price: version 1 has decimals of scale 2, the new schema of 3"
    embedded.register("hashes-value", avro(fixed(4, logicalType="decimal", precision=9, scale=1)))
    assert embedded.problems("hashes-value", avro(fixed(4, logicalType="decimal", precision=9)))


LONG = avro(record(field("n", "long")))
INT = avro(record(field("n", "int")))
DOUBLE = avro(record(field("n", "double")))


@pytest.mark.parametrize(
    ("level", "versions", "new", "works"),
    [
        ("NONE", [LONG], avro("string"), True),
        ("BACKWARD", [INT, LONG], DOUBLE, True),
        ("BACKWARD", [LONG], INT, False),
        ("BACKWARD", [avro(record(field("n", "string"))), INT], LONG, True),
        ("BACKWARD_TRANSITIVE", [avro(record(field("n", "string"))), INT], LONG, False),
        ("FORWARD", [LONG], INT, True),
        ("FORWARD", [INT], LONG, False),
        ("FORWARD", [avro(record(field("n", "string"))), LONG], INT, True),
        ("FORWARD_TRANSITIVE", [avro(record(field("n", "string"))), LONG], INT, False),
        ("FULL", [INT], LONG, False),
        ("FULL", [INT], avro(record(field("n", "int"), field("m", "int", default=0))), True),
        ("FULL", [LONG, INT], avro(record(field("n", "int"), field("m", "int", default=0))), True),
        ("FULL_TRANSITIVE", [LONG, INT], avro(record(field("n", "int"), field("m", "int", default=0))), False),
    ],
)  # fmt: skip
def test_a_level_compares_some_versions_in_some_directions(
    level: str, versions: list[Schema], new: Schema, works: bool, comparing: SchemaRegistry, subject: str
) -> None:
    comparing.set_compatibility("NONE")
    try:
        for version in versions:
            comparing.register(subject, version)
        comparing.set_compatibility(level, subject)
        _check(level, new, works, comparing, subject)
    finally:
        comparing.set_compatibility("BACKWARD")
    assert len(comparing.versions(subject)) == len(versions) + works


def _check(level: str, new: Schema, works: bool, comparing: SchemaRegistry, subject: str) -> None:
    assert comparing.compatibility(subject) == level
    assert (not comparing.problems(subject, new)) is works
    if works:
        comparing.register(subject, new)
    else:
        with pytest.raises(IncompatibleSchemaError, match=subject) as raised:
            comparing.register(subject, new)
        assert raised.value.problems


def test_the_message_reads_well(embedded: EmbeddedRegistry) -> None:
    old = record(field("id", "int"), field("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}))
    new = record(
        field("id", "string"),
        field("colour", {"type": "enum", "name": "Colour", "symbols": ["RED"]}),
        field("to", record(field("city", "string"), name="Address")),
        name="Order",
    )
    embedded.register("orders-value", avro(old))
    with pytest.raises(IncompatibleSchemaError) as raised:
        embedded.register("orders-value", avro(new))
    assert str(raised.value) == (
        "the schema is not compatible with subject 'orders-value', whose level is BACKWARD:\n"
        "    id: version 1 has int, which the new schema cannot read as string\n"
        "    colour: the new schema lacks the symbol BLUE of version 1, and has no default symbol\n"
        "    to: the new schema requires this field without a default, version 1 lacks it\n"
        "  hint: change the schema; or the level: millstream schemas register orders-value FILE --compatibility NONE"
    )


def test_deep_and_wide_recursion_ends() -> None:
    """Every type refers to every other: without the memory of compared pairs, this would take ages."""
    names = [f"R{number}" for number in range(40)]
    inner: object = "int"
    for name in reversed(names):
        inner = record(*(field(f"f{n}", ["null", inner if n == 0 else "R0"]) for n in range(3)), name=name)
    text = json.dumps(inner)
    assert not compare_avro(parse_avro(text).root, parse_avro(text).root, Sides("a", "b"))
    nested: object = "int"
    for _ in range(150):
        nested = array(nested)
    assert not compare_avro(parse_avro(json.dumps(nested)).root, parse_avro(json.dumps(nested)).root, Sides("a", "b"))
