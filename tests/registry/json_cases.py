"""Changes of a JSON Schema: which of the two accepts all data of the other."""

from __future__ import annotations

from typing import Any

from tests.registry.avro_cases import Case

STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
TOP = "the schema"


def thing(properties: Any = None, *required: str, **more: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties or {}}
    return {**schema, **({"required": list(required)} if required else {}), **more}


def closed(properties: Any = None, *required: str) -> dict[str, Any]:
    return thing(properties, *required, additionalProperties=False)


def tree(value: Any) -> dict[str, Any]:
    node = closed({"value": value, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}})
    return {"definitions": {"node": node}, "$ref": "#/definitions/node"}


def items(*schemas: Any, **more: Any) -> dict[str, Any]:
    """An array whose first items have schemas of their own, as they are written up to draft 7."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": list(schemas), **more}


CASES = [
    Case("a-property-is-added-to-an-open-model", thing({"a": STRING}), thing({"a": STRING, "b": STRING}), "b"),
    Case("a-property-is-added-to-a-closed-model", closed({"a": STRING}), closed({"a": STRING, "b": STRING}), None, "b"),
    Case("a-property-without-a-type-is-added-to-an-open-model", thing({"a": STRING}), thing({"a": STRING, "b": {}})),
    Case("a-property-is-added-that-was-covered",
         thing({}, additionalProperties=STRING), thing({"b": STRING}, additionalProperties=STRING)),
    Case("a-property-is-added-that-was-covered-by-another-type",
         thing({}, additionalProperties=STRING), thing({"b": NUMBER}, additionalProperties=STRING), "b", "b"),
    Case("a-property-is-added-that-a-pattern-covered",
         {"type": "object", "patternProperties": {"^b": STRING}, "additionalProperties": False},
         {"type": "object", "properties": {"b": STRING}, "patternProperties": {"^b": STRING},
          "additionalProperties": False}),
    Case("a-required-property-is-added-to-a-closed-model",
         closed({"a": STRING}), closed({"a": STRING, "b": STRING}, "b"), "b", "b"),
    Case("a-required-property-with-a-default-is-added-to-a-closed-model",
         closed({"a": STRING}), closed({"a": STRING, "b": {"type": "string", "default": ""}}, "b"), None, "b"),
    Case("a-property-becomes-required", closed({"a": STRING}), closed({"a": STRING}, "a"), "a"),
    Case("a-model-is-closed", thing({"a": STRING}), closed({"a": STRING}), "{}"),
    Case("a-type-changes", closed({"a": STRING}), closed({"a": NUMBER}), "a", "a"),
    Case("integer-becomes-number", closed({"a": INTEGER}), closed({"a": NUMBER}), None, "a"),
    Case("a-type-is-added", closed({"a": STRING}), closed({"a": {"type": ["string", "null"]}}), None, "a"),
    Case("a-value-is-added", {"enum": ["a"]}, {"enum": ["a", "b"]}, None, TOP),
    Case("values-are-listed", STRING, {"type": "string", "enum": ["a"]}, TOP),
    Case("the-title-changes", closed({"a": {"type": "string", "title": "x"}}), closed({"a": STRING})),
    Case("maximum-grows", {"type": "number", "maximum": 1}, {"type": "number", "maximum": 2}, None, TOP),
    Case("minimum-is-added", NUMBER, {"type": "number", "minimum": 2}, TOP),
    Case("max-length-shrinks", {"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 5}, TOP),
    Case("a-pattern-is-added", STRING, {"type": "string", "pattern": "^a"}, TOP),
    Case("items-change", {"type": "array", "items": STRING}, {"type": "array", "items": NUMBER}, "[]", "[]"),
    Case("items-become-unique", {"type": "array"}, {"type": "array", "uniqueItems": True}, TOP),
    Case("an-alternative-is-added", {"oneOf": [STRING]}, {"oneOf": [STRING, NUMBER]}, None, TOP),
    Case("one-type-becomes-several", STRING, {"anyOf": [STRING, {"type": "null"}]}, None, TOP),
    Case("a-field-deep-inside-changes",
         closed({"lines": {"type": "array", "items": closed({"price": NUMBER})}}),
         closed({"lines": {"type": "array", "items": closed({"price": STRING})}}), "lines[].price", "lines[].price"),
    Case("a-recursive-schema-is-the-same", tree(STRING), tree(STRING)),
    Case("a-recursive-schema-changes", tree(INTEGER), tree(NUMBER), None, "value"),
    Case("a-schema-in-definitions-changes",
         {"definitions": {"d": STRING}, **closed({"a": {"$ref": "#/definitions/d"}})},
         {"definitions": {"d": NUMBER}, **closed({"a": {"$ref": "#/definitions/d"}})}, "a", "a"),
    Case("min-length-grows", {"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}, TOP),
    Case("exclusive-maximum-grows",
         {"type": "number", "exclusiveMaximum": 1}, {"type": "number", "exclusiveMaximum": 2}, None, TOP),
    Case("exclusive-minimum-is-added", NUMBER, {"type": "number", "exclusiveMinimum": 2}, TOP),
    Case("multiple-of-becomes-a-divisor",
         {"type": "integer", "multipleOf": 10}, {"type": "integer", "multipleOf": 5}, None, TOP),
    Case("multiple-of-changes", {"type": "integer", "multipleOf": 10}, {"type": "integer", "multipleOf": 3}, TOP, TOP),
    Case("max-properties-grows", thing(maxProperties=1), thing(maxProperties=2), None, TOP),
    Case("min-properties-is-added", thing(), thing(minProperties=1), TOP),
    Case("max-items-grows", {"type": "array", "maxItems": 1}, {"type": "array", "maxItems": 2}, None, TOP),
    Case("min-items-is-added", {"type": "array"}, {"type": "array", "minItems": 1}, TOP),
    Case("additional-items-are-refused", items(STRING), items(STRING, additionalItems=False), "[]"),
    Case("additional-items-are-narrowed",
         items(STRING, additionalItems=NUMBER), items(STRING, additionalItems=INTEGER), "[]"),
    Case("an-item-is-added-to-an-open-array", items(STRING), items(STRING, NUMBER), "[1]"),
    Case("an-item-is-added-to-a-closed-array",
         items(STRING, additionalItems=False), items(STRING, NUMBER, additionalItems=False), None, "[1]"),
    Case("an-item-is-added-that-was-covered",
         items(STRING, additionalItems=NUMBER), items(STRING, NUMBER, additionalItems=NUMBER)),
    Case("a-condition-is-removed", {"allOf": [STRING, {"maxLength": 3}]}, {"allOf": [STRING]}, None, TOP),
    Case("what-is-excluded-is-narrowed", {"not": {"type": ["string", "number"]}}, {"not": STRING}, None, TOP),
    Case("an-alternative-is-removed", {"anyOf": [STRING, NUMBER]}, {"anyOf": [STRING]}, TOP),
    Case("a-schema-becomes-the-only-alternative", STRING, {"oneOf": [STRING]}),
    Case("an-impossible-property-is-removed-from-a-closed-model",
         closed({"a": STRING, "b": False}), closed({"a": STRING})),
    Case("an-impossible-property-is-removed-from-an-open-model",
         thing({"a": STRING, "b": False}), thing({"a": STRING}), None, "b"),
    Case("other-properties-are-extended",
         thing(additionalProperties=INTEGER), thing(additionalProperties=NUMBER), None, "{}"),
    Case("a-property-with-a-default-becomes-required",
         closed({"a": {"type": "string", "default": ""}}), closed({"a": {"type": "string", "default": ""}}, "a")),
    Case("a-default-changes",
         closed({"a": {"type": "string", "default": "x"}}), closed({"a": {"type": "string", "default": "y"}})),
    Case("a-constant-changes", {"const": 1}, {"const": 2}, TOP, TOP),
    Case("anything-is-accepted", STRING, {}, None, TOP),
]  # fmt: skip
