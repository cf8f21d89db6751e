"""JSON Schemas in a registry: their documents, references and normal form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from millstream.errors import InvalidSchemaError, SetupError
from millstream.registry.formats.avro import compact
from millstream.registry.formats.avro_parser import MAX_DEPTH, parse_json
from millstream.registry.formats.problems import Finding, Sides

_DRAFTS = ("http://json-schema.org/", "https://json-schema.org/")


@dataclass(frozen=True, eq=False)
class Document:
    """A JSON Schema, and the documents that its references name. Nothing is ever fetched."""

    root: Any
    base: str
    others: Mapping[str, Any]

    def resolve(self, reference: str, base: str) -> tuple[Any, str] | None:
        """Returns the schema that a reference names, and the address of its document; None if there is none."""
        address, fragment = urldefrag(urljoin(base, reference))
        document, place = self.root, self.base
        if address not in {"", self.base}:
            key = next((key for key in (address, reference.partition("#")[0]) if key in self.others), None)
            if key is None:
                return None
            document, place = self.others[key], address
        return _at(document, unquote(fragment), place)


class JsonFormat:
    """Parses, normalizes and compares JSON Schemas."""

    keeps_normal = True

    def parse(self, text: str, references: Sequence[tuple[str, str]]) -> Document:
        """Parses a schema, and checks that all its references are known.

        Raises:
            InvalidSchemaError: It is not a schema.
            SetupError: The validator is not installed.
        """
        root = parse_json(text)
        others: dict[str, Any] = {}
        for name, content in references:
            document = parse_json(content)
            for key in {name, urldefrag(_id_of(document)).url} - {""}:
                others[key] = document
        parsed = Document(root, urldefrag(_id_of(root)).url, others)
        used = list(_references(root, 0))
        _validate(root)
        for reference in used:
            if parsed.resolve(reference, parsed.base) is None:
                hint = "a schema of another subject needs a reference to it; nothing is fetched from an address"
                raise InvalidSchemaError(f"the JSON Schema refers to {reference!r}, which is unknown", hint=hint)
        return parsed

    def canonical(self, text: str) -> str:
        """Returns the text without white space between its tokens, as Confluent's registry keeps it."""
        return compact(parse_json(text))

    def normal(self, parsed: Document) -> str:
        """Returns the text with the members of objects in alphabetical order."""
        return json.dumps(parsed.root, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def compare(self, reader: Document, writer: Document, sides: Sides) -> list[Finding]:
        """Returns why data of the writer's schema is not valid under the reader's."""
        from millstream.registry.formats.json_compatibility import compare_json  # noqa: PLC0415  (only for a comparison)

        return compare_json(reader, writer, sides)


def _validate(root: Any) -> None:
    """Checks a schema against the schema of its draft."""
    try:
        import jsonschema_rs  # noqa: PLC0415  (it may not be installed)
    except ImportError:
        hint = 'pip install "millstream[jsonschema]"'
        raise SetupError("JSON Schemas need the package jsonschema-rs, which is not installed", hint=hint) from None
    if not isinstance(root, dict | bool):
        raise InvalidSchemaError("not a JSON Schema: it is neither an object nor true or false")
    draft = root.get("$schema") if isinstance(root, dict) else None
    if draft is not None and not (isinstance(draft, str) and draft.startswith(_DRAFTS)):
        raise InvalidSchemaError(f"not a JSON Schema of a known draft: $schema is {draft!r}")
    try:
        jsonschema_rs.meta.validate(root)
    except jsonschema_rs.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        raise InvalidSchemaError(f"not a JSON Schema: {place or 'at its top'}: {error.message}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchemaError(f"not a JSON Schema: {error}") from None


def _id_of(document: Any) -> str:
    identity = document.get("$id", document.get("id", "")) if isinstance(document, dict) else ""
    return identity if isinstance(identity, str) else ""


def _references(node: Any, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise InvalidSchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for key, value in node.items():
            if key not in {"enum", "const", "default", "examples"}:
                yield from _references(value, depth + 1)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value, depth + 1)


def _at(document: Any, fragment: str, place: str) -> tuple[Any, str] | None:
    """Returns the schema at a JSON pointer, or with an anchor."""
    if not fragment:
        return document, place
    if not fragment.startswith("/"):
        found = _anchored(document, fragment, 0)
        return None if found is None else (found, place)
    node = document
    for part in fragment[1:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node, place


def _anchored(node: Any, anchor: str, depth: int) -> Any:
    if depth > MAX_DEPTH or not isinstance(node, dict | list):
        return None
    if isinstance(node, dict) and (node.get("$anchor") == anchor or node.get("$id") == f"#{anchor}"):
        return node
    inner = node.values() if isinstance(node, dict) else node
    return next((found for each in inner if (found := _anchored(each, anchor, depth + 1)) is not None), None)
