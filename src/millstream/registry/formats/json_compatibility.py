"""Whether all data of one JSON Schema is valid under another: the rules of Confluent's registry, as far as they go.

Covered are types, ``enum`` and ``const``, limits of numbers, strings, arrays and objects, ``required``, properties in
open, closed and partially open content models, ``items`` and tuples, ``allOf``, ``anyOf``, ``oneOf``, ``not``, and
references. An object schema is open unless ``additionalProperties`` is false or a schema, or there are
``patternProperties``. A property that is added to an open model may break data, because that data may have anything
under its name; one that is removed from a closed model breaks data that has it. Not compared are ``if``, ``then`` and
``else``, ``dependencies``, ``propertyNames``, ``contains`` and ``unevaluated…``.
"""

from __future__ import annotations

from typing import Any

from millstream.registry.formats.json_schema import Document
from millstream.registry.formats.problems import Finding, Sides

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_NO_CONSTRAINT = frozenset({
    "$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "description", "examples", "id", "title"
})  # fmt: skip
# The larger the value of the reader, the more is valid; and the other way round.
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")


def compare_json(reader: Document, writer: Document, sides: Sides) -> list[Finding]:
    """Returns why data of the writer's schema is not valid under the reader's: nothing if it is."""
    return _Comparison(reader, writer, sides).compare(_Node(reader.root, reader.base), _Node(writer.root, writer.base))


class _Node:
    """A schema and the address of its document."""

    __slots__ = ("base", "schema")

    def __init__(self, schema: Any, base: str) -> None:
        self.schema = schema
        self.base = base

    def __getitem__(self, key: str) -> Any:
        return self.schema.get(key) if isinstance(self.schema, dict) else None

    def child(self, schema: Any) -> _Node:
        return _Node(schema, self.base)

    @property
    def accepts_all(self) -> bool:
        return self.schema is True or (isinstance(self.schema, dict) and not set(self.schema) - _NO_CONSTRAINT)

    @property
    def types(self) -> tuple[str, ...]:
        given = self["type"]
        if given is None:
            return _types_of_values(self.values)
        return (given,) if isinstance(given, str) else tuple(given)

    @property
    def values(self) -> list[Any] | None:
        """The only valid values, if they are listed."""
        if isinstance(self.schema, dict) and "const" in self.schema:
            return [self.schema["const"]]
        given = self["enum"]
        return given if isinstance(given, list) else None

    @property
    def properties(self) -> dict[str, Any]:
        return self["properties"] or {}

    @property
    def required(self) -> list[str]:
        given = self["required"]
        return given if isinstance(given, list) else []

    @property
    def others(self) -> Any:
        """The schema of additional properties: True if they are open, False if closed."""
        given = self["additionalProperties"]
        return True if given is None else given

    def cover(self, name: str) -> _Node | None:
        """Returns the schema of a property that is not declared; None if there must be none."""
        for pattern, schema in (self["patternProperties"] or {}).items():
            if _matches(pattern, name):
                return self.child(schema)
        return None if self.others is False else self.child(self.others)


class _Comparison:
    def __init__(self, reader: Document, writer: Document, sides: Sides) -> None:
        self._reader, self._writer, self._sides = reader, writer, sides
        self._known: dict[tuple[int, int], list[Finding]] = {}
        self._made: dict[tuple[Any, ...], Any] = {}  # kept, so that each has one identity

    def compare(self, reader: _Node, writer: _Node) -> list[Finding]:
        reader, writer = _followed(self._reader, reader), _followed(self._writer, writer)
        pair = id(reader.schema), id(writer.schema)
        if isinstance(reader.schema, bool) or isinstance(writer.schema, bool):
            return self._compare(reader, writer)  # True and False are the same objects everywhere
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer)
        return self._known[pair]

    def _compare(self, reader: _Node, writer: _Node) -> list[Finding]:
        if reader.accepts_all or writer.schema is False:
            return []
        if reader.schema is False:
            return [self._finding("{writer} admits data here, {reader} none")]
        if writer.accepts_all:
            return [self._finding("{writer} admits any data here, {reader} does not")]
        findings = self._combined(reader, writer)
        if findings is not None:
            return findings
        findings = self._types(reader, writer)
        if findings:
            return findings
        findings = self._values(reader, writer) + self._limits(reader, writer)
        if "object" in reader.types:
            findings += self._objects(reader, writer)
        if "array" in reader.types:
            findings += self._arrays(reader, writer)
        return findings

    # ----- combinations ----------------------------------------------------------------------------------------------

    def _combined(self, reader: _Node, writer: _Node) -> list[Finding] | None:
        """Compares schemas of which one is a combination; None if neither is."""
        for key in ("anyOf", "oneOf"):
            if writer[key] is not None:
                return [finding for branch in self._branches(writer, key) for finding in self.compare(reader, branch)]
        for key in ("anyOf", "oneOf"):
            if reader[key] is not None:
                return self._one_of_several(self._branches(reader, key), writer)
        if reader["allOf"] is not None:
            return [finding for part in self._parts(reader) for finding in self.compare(part, writer)]
        if writer["allOf"] is not None:
            attempts = [self.compare(reader, part) for part in self._parts(writer) if not part.accepts_all]
            return min(attempts, key=len, default=[])
        if reader["not"] is not None:
            return self._excluded(reader, writer)
        return None

    def _branches(self, node: _Node, key: str) -> list[_Node]:
        """Returns the branches of a combination, each together with the constraints beside it."""
        rest = self._without(node, key)
        if rest.accepts_all:
            return [node.child(branch) for branch in node[key]]
        numbered = enumerate(node[key])
        return [
            node.child(self._made.setdefault((id(node.schema), key, number), {"allOf": [rest.schema, branch]}))
            for number, branch in numbered
        ]

    def _parts(self, node: _Node) -> list[_Node]:
        return [self._without(node, "allOf"), *(node.child(part) for part in node["allOf"])]

    def _without(self, node: _Node, key: str) -> _Node:
        rest = {name: value for name, value in node.schema.items() if name != key}
        return node.child(self._made.setdefault((id(node.schema), key), rest))

    def _one_of_several(self, branches: list[_Node], writer: _Node) -> list[Finding]:
        attempts = [self.compare(branch, writer) for branch in branches]
        if any(not findings for findings in attempts):
            return []
        return [self._finding("{reader} has no alternative for the data of {writer}")]

    def _excluded(self, reader: _Node, writer: _Node) -> list[Finding]:
        findings = self.compare(self._without(reader, "not"), writer)
        if writer["not"] is None:
            return [*findings, self._finding("{reader} excludes data that {writer} admits")]
        # What the reader excludes must be excluded by the writer, too: the roles change.
        turned = _Comparison(self._writer, self._reader, Sides(self._sides.writer, self._sides.reader))
        if turned.compare(writer.child(writer["not"]), reader.child(reader["not"])):
            findings = [*findings, self._finding("{reader} excludes more data than {writer}")]
        return findings

    # ----- values ----------------------------------------------------------------------------------------------------

    def _types(self, reader: _Node, writer: _Node) -> list[Finding]:
        missing = [kind for kind in writer.types if not _is_covered(kind, reader.types)]
        if not missing:
            return []
        texts = " or ".join(missing), " or ".join(reader.types)
        return [self._finding(f"{{writer}} has {texts[0]}, {{reader}} {texts[1]}")]

    def _values(self, reader: _Node, writer: _Node) -> list[Finding]:
        if reader.values is None:
            return []
        if writer.values is None:
            return [self._finding("{reader} lists the valid values, {writer} does not")]
        missing = [value for value in writer.values if value not in reader.values]
        if not missing:
            return []
        return [self._finding(f"{{reader}} lacks the values {', '.join(map(repr, missing[:5]))} of {{writer}}")]

    def _limits(self, reader: _Node, writer: _Node) -> list[Finding]:
        findings = []
        for key in (*_UPPER, *_LOWER):
            new, old = reader[key], writer[key]
            if _is_number(new) and (not _is_number(old) or (new < old if key in _UPPER else new > old)):
                before = "none" if old is None else old
                findings.append(self._finding(f"{{reader}} has {key} {new}, {{writer}} {before}"))
        if reader["pattern"] is not None and reader["pattern"] != writer["pattern"]:
            findings.append(self._finding("{reader} has another pattern than {writer}"))
        multiple, earlier = reader["multipleOf"], writer["multipleOf"]
        if _is_number(multiple) and (not _is_number(earlier) or earlier % multiple):
            findings.append(self._finding(f"{{reader}} admits multiples of {multiple}, {{writer}} others"))
        if reader["uniqueItems"] is True and writer["uniqueItems"] is not True:
            findings.append(self._finding("{reader} requires unique items, {writer} does not"))
        return findings

    # ----- objects ---------------------------------------------------------------------------------------------------

    def _objects(self, reader: _Node, writer: _Node) -> list[Finding]:
        findings: list[Finding] = []
        for name in dict.fromkeys((*reader.properties, *writer.properties)):
            findings += (finding.below(name) for finding in self._property(name, reader, writer))
        findings += (
            Finding(name, self._text("{reader} requires this property without a default, {writer} does not"))
            for name in reader.required
            if name not in writer.required and not self._has_default(reader, name)
        )
        if writer.others is not False:
            others = self.compare(reader.child(reader.others), writer.child(writer.others))
            findings += (finding.below("{}") for finding in others)
        return findings

    def _property(self, name: str, reader: _Node, writer: _Node) -> list[Finding]:
        if name in reader.properties and name in writer.properties:
            return self.compare(reader.child(reader.properties[name]), writer.child(writer.properties[name]))
        if name in reader.properties:  # added
            new, cover = reader.child(reader.properties[name]), writer.cover(name)
            if cover is None or new.accepts_all:
                return []
            if cover.accepts_all:
                return [self._finding("{reader} adds this property, and {writer} admits any data under its name")]
            return self.compare(new, cover)
        old, cover = writer.child(writer.properties[name]), reader.cover(name)
        if cover is None:
            if old.schema is False:
                return []
            return [self._finding("{reader} removes this property, and admits no others")]
        return self.compare(cover, old)

    def _has_default(self, reader: _Node, name: str) -> bool:
        schema = reader.properties.get(name)
        return isinstance(schema, dict) and "default" in _followed(self._reader, reader.child(schema)).schema

    # ----- arrays ----------------------------------------------------------------------------------------------------

    def _arrays(self, reader: _Node, writer: _Node) -> list[Finding]:
        (new_items, new_rest), (old_items, old_rest) = _items(reader), _items(writer)
        findings: list[Finding] = []
        for position in range(max(len(new_items), len(old_items))):
            new = new_items[position] if position < len(new_items) else new_rest
            old = old_items[position] if position < len(old_items) else old_rest
            inner = self.compare(reader.child(new), writer.child(old))
            findings += (finding.below(f"[{position}]") for finding in inner)
        rest = self.compare(reader.child(new_rest), writer.child(old_rest))
        return [*findings, *(finding.below("[]") for finding in rest)]

    def _finding(self, text: str) -> Finding:
        return Finding("", self._text(text))

    def _text(self, text: str) -> str:
        return text.replace("{reader}", self._sides.reader).replace("{writer}", self._sides.writer)


def _followed(document: Document, node: _Node) -> _Node:
    """Follows the reference of a schema. One that leads back to itself accepts everything."""
    seen = set()
    while isinstance(node.schema, dict) and isinstance(node["$ref"], str):
        if id(node.schema) in seen:
            return _Node(True, node.base)
        seen.add(id(node.schema))
        found = document.resolve(node["$ref"], node.base)
        if found is None:
            return _Node(True, node.base)
        node = _Node(*found)
    return node


def _items(node: _Node) -> tuple[list[Any], Any]:
    """Returns the schemas of the first items of an array, and that of the others."""
    prefix, items = node["prefixItems"], node["items"]
    if isinstance(items, list):
        rest = node["additionalItems"]
        return items, True if rest is None else rest
    return prefix if isinstance(prefix, list) else [], True if items is None else items


def _types_of_values(values: list[Any] | None) -> tuple[str, ...]:
    if values is None:
        return _TYPES
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return tuple(dict.fromkeys(kinds.get(type(value), "null") for value in values))


def _is_covered(kind: str, kinds: tuple[str, ...]) -> bool:
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern, in linear time: the pattern may be hostile."""
    import jsonschema_rs  # noqa: PLC0415  (the schemas were parsed with it)

    options = jsonschema_rs.RegexOptions()
    try:
        return bool(jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options).is_valid(name))
    except ValueError:
        return False  # a pattern that needs more than linear time
