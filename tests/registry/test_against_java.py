"""Random changes of Avro schemas are judged as by Apache Avro for Java, which Apicurio asks."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.registry.avro_cases import array, enum, field, fixed, map_of, record

from millstream.errors import InvalidSchemaError
from millstream.registry import Schema
from millstream.registry.confluent.registry import ConfluentRegistry
from millstream.registry.formats.avro_compatibility import compare_avro
from millstream.registry.formats.avro_parser import parse_avro
from millstream.registry.formats.problems import Sides

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS = {"null": None, "boolean": False, "int": 1, "long": 1, "float": 1.5, "double": 1.5, "bytes": "", "string": ""}
SEEDS = range(120)


class Maker:
    """Makes schemas. Types at the same place have the same name, unless they are renamed now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def schema(self, place: str, depth: int, *, in_union: bool = False) -> Any:
        kinds = ["primitive"] * 3 + ["enum", "fixed"]
        if depth:
            kinds += ["record", "record", "array", "map"] + ([] if in_union else ["union"] * 2)
        kind = self.random.choice(kinds)
        if kind == "record":
            return self.record(place, depth)
        if kind == "array":
            return array(self.schema(f"{place}i", depth - 1))
        if kind == "map":
            return map_of(self.schema(f"{place}v", depth - 1))
        if kind == "union":
            return self.union(place, depth)
        if kind == "enum":
            symbols = self.random.sample(["X", "Y", "Z"], self.random.randint(1, 3))
            more = {"default": symbols[0]} if self.random.random() < 0.4 else {}
            return enum(*symbols, name=f"E{place}", **more)
        if kind == "fixed":
            return fixed(self.random.randint(1, 2), name=f"F{place}")
        return self.random.choice(PRIMITIVES)

    def record(self, place: str, depth: int) -> Any:
        names = self.random.sample(["a", "b", "c", "d"], self.random.randint(1, 3))
        return record(*(self.field(name, place, depth) for name in sorted(names)), name=f"R{place}")

    def field(self, name: str, place: str, depth: int) -> Any:
        of_type = self.schema(f"{place}{name}", depth - 1)
        more: dict[str, Any] = {}
        if isinstance(of_type, str) and self.random.random() < 0.5:
            more["default"] = DEFAULTS[of_type]
        if self.random.random() < 0.15:
            more["aliases"] = [self.random.choice([each for each in ("a", "b", "c", "d") if each != name])]
        return field(name, of_type, **more)

    def union(self, place: str, depth: int) -> Any:
        branches: dict[str, Any] = {}
        for number in range(self.random.randint(1, 3)):
            branch = self.schema(f"{place}u{number}", depth - 1, in_union=True)
            kind = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            branches.setdefault(kind, branch)
        return list(branches.values())

    def changed(self, node: Any, place: str, depth: int) -> Any:
        """Returns a schema with some of its parts replaced."""
        if self.random.random() < 0.12:
            return self.schema(place, max(depth, 0))
        if isinstance(node, dict) and node["type"] == "record":
            fields = [
                self.field(each["name"], place, max(depth, 1))
                if self.random.random() < 0.12
                else {**each, "type": self.changed(each["type"], f"{place}{each['name']}", depth - 1)}
                for each in node["fields"]
                if self.random.random() > 0.1
            ]
            for each in fields:
                if self.invalid(each):
                    del each["default"]
            return {**node, "fields": fields}
        if isinstance(node, dict) and node["type"] == "array":
            return array(self.changed(node["items"], f"{place}i", depth - 1))
        if isinstance(node, dict) and node["type"] == "map":
            return map_of(self.changed(node["values"], f"{place}v", depth - 1))
        return node

    def invalid(self, node: Any) -> bool:
        return "default" in node and (
            not isinstance(node["type"], str) or node["default"] != DEFAULTS.get(node["type"], object())
        )


def judged(apicurio: ConfluentRegistry, name: str, schema: Schema) -> bool:
    """Whether Java accepts a schema. It calls an ambiguous alias an invalid schema."""
    try:
        return not apicurio.problems(name, schema)
    except InvalidSchemaError:
        return False


@pytest.mark.parametrize("chunk", range(4))
def test_random_changes_are_judged_as_by_java(chunk: int, apicurio: ConfluentRegistry, subject: str) -> None:
    verdicts = set()
    for seed in SEEDS[chunk::4]:
        maker = Maker(seed)
        old = maker.record("", 3)
        new = maker.changed(old, "", 3)
        texts = json.dumps(old), json.dumps(new)
        before, after = parse_avro(texts[0]).root, parse_avro(texts[1]).root
        name = f"{subject}-{seed}"
        apicurio.register(name, Schema(texts[0]))
        for level, reader, writer in (("BACKWARD", after, before), ("FORWARD", before, after)):
            apicurio.set_compatibility(level, name)
            ours = not compare_avro(reader, writer, Sides("reader", "writer"))
            theirs = judged(apicurio, name, Schema(texts[1]))
            assert ours == theirs, f"seed {seed}, {level}: ours {ours}, Java's {theirs}\n{texts[0]}\n{texts[1]}"
            verdicts.add(ours)
    assert verdicts == {True, False}
