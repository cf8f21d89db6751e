from __future__ import annotations

import json

import pytest

from millstream.errors import InvalidSchemaError
from millstream.registry.formats.avro import AvroFormat
from millstream.registry.formats.avro_parser import parse_avro


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the schema is not JSON: Expecting value"),
        ("{", "the schema is not JSON"),
        ("5", "at its top: a type is text, an object or a list, not 5"),
        ('"strin"', "at its top: there is no type \"strin\"\n  hint: did you mean 'string'?"),
        ("{}", "at its top: the object has no type"),
        ('{"type": 5}', "5 is not a type"),
        ('{"type": "array"}', "items is missing"),
        ('{"type": "map", "values": "x"}', "{}: there is no type"),
        ('{"type": "record", "fields": []}', "the record has no name"),
        ('{"type": "record", "name": "9A", "fields": []}', '"9A" is not a name'),
        ('{"type": "record", "name": "A", "namespace": 5, "fields": []}', "the namespace 5 is not text"),
        ('{"type": "record", "name": "A"}', "fields is missing"),
        ('{"type": "record", "name": "A", "fields": {}}', "the fields are not a list"),
        ('{"type": "record", "name": "A", "fields": [5]}', "a field is an object, not 5"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a"}]}', "a: type is missing"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a-b", "type": "int"}]}', '"a-b" is not a name'),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
            "the field a occurs twice",
        ),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": "B"}}]}',
            "a[]: there is no type",
        ),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int", "default": "x"}]}',
            'a: the default "x" does not match the type int',
        ),
        ('{"type": "record", "name": "A", "aliases": 5, "fields": []}', "aliases is not a list of names"),
        ('{"type": "enum", "name": "E"}', "the enum has no symbols"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "the symbol A occurs twice"),
        ('{"type": "enum", "name": "E", "symbols": ["a b"]}', '"a b" is not a symbol'),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', 'the default "B" is none of the symbols'),
        ('{"type": "fixed", "name": "F"}', "size is missing"),
        ('{"type": "fixed", "name": "F", "size": -1}', "the size -1 is not a number of bytes"),
        ('["int", "int"]', "the union contains int twice"),
        ('["int", ["null"]]', "a union must not contain a union"),
        ('[{"type": "fixed", "name": "F", "size": 1}, {"type": "enum", "name": "F", "symbols": []}]', "F is defined"),
        ('{"type": "array", "items": ' * 300 + '"int"' + "}" * 300, "nested more than 200 levels deep"),
        ("[" * 100_000, "nested more than 200 levels deep"),
        ('{"type": "int", "x": NaN}', "NaN is not a number of JSON"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_path(text: str, message: str) -> None:
    with pytest.raises(InvalidSchemaError) as raised:
        parse_avro(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("type", "default", "works"),
    [
        ("null", None, True),
        ("boolean", True, True),
        ("boolean", 1, False),
        ("int", 2**31 - 1, True),
        ("int", 2**31, False),
        ("int", True, False),
        ("long", 2**63 - 1, True),
        ("long", 1.0, False),
        ("float", 1, True),
        ("double", 1.5, True),
        ("double", "1", False),
        ("bytes", "\u00ff", True),
        ("bytes", "\u0100", False),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", True),
        ({"type": "fixed", "name": "F", "size": 2}, "a", False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", True),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", False),
        ({"type": "array", "items": "int"}, [1, 2], True),
        ({"type": "array", "items": "int"}, ["1"], False),
        ({"type": "map", "values": "int"}, {"a": 1}, True),
        ({"type": "map", "values": "int"}, {"a": "1"}, False),
        (["null", "string"], None, True),
        (["null", "string"], "x", True),
        (["null", "string"], 1, False),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}, True),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {}, False),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 0}]}, {}, True),
    ],
)  # fmt: skip
def test_a_default_matches_its_type(type: object, default: object, works: bool) -> None:
    text = json.dumps({"type": "record", "name": "A", "fields": [{"name": "a", "type": type, "default": default}]})
    if works:
        parse_avro(text)
    else:
        with pytest.raises(InvalidSchemaError, match="does not match the type"):
            parse_avro(text)


def test_names_are_resolved_in_their_namespace() -> None:
    text = """{"type": "record", "name": "a.Outer", "fields": [
        {"name": "one", "type": {"type": "fixed", "name": "Inner", "size": 1, "aliases": ["Old", "b.Old"]}},
        {"name": "two", "type": "Inner"}, {"name": "three", "type": "a.Inner"},
        {"name": "four", "type": {"type": "enum", "name": "E", "namespace": "c", "symbols": []}},
        {"name": "five", "type": {"type": "c.E"}}]}"""
    fields = {field.name: field.type for field in parse_avro(text).root.fields}
    assert fields["one"] is fields["two"] is fields["three"]
    assert fields["one"].aliases == ("a.Old", "b.Old")
    assert fields["four"] is fields["five"]
    assert fields["four"].name == "c.E"


def test_schemas_that_differ_in_form_have_the_same_normal_form() -> None:
    one = """{"type": "record", "name": "A", "namespace": "n", "doc": "d", "fields": [
        {"name": "a", "type": {"type": "string"}, "default": "", "doc": "x"}, {"name": "b", "type": ["null", "A"]}]}"""
    other = """{"doc": "d", "fields": [{"doc": "x", "default": "", "type": "string", "name": "a"},
        {"name": "b", "type": ["null", "n.A"]}], "name": "n.A", "type": "record"}"""
    avro = AvroFormat()
    normal = avro.normal(avro.parse(one, []))
    assert normal == avro.normal(avro.parse(other, []))
    assert normal == avro.normal(avro.parse(normal, []))
    assert avro.canonical(one) != avro.canonical(other)
