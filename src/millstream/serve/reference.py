"""Writes the reference of the API from its OpenAPI description: for the documentation, and for the page /docs."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{font:13px ui-monospace,monospace}table{border-collapse:collapse;margin:.5rem 0}"
    "td,th{border-bottom:1px solid #8884;padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"
"""The content security policy of the page."""


@dataclass(frozen=True)
class Field:
    """A parameter of a request, or a field of its body."""

    name: str
    place: str
    type: str
    text: str


@dataclass(frozen=True)
class Operation:
    """A route with one of its methods."""

    method: str
    path: str
    group: str
    summary: str
    text: str
    role: str | None
    fields: tuple[Field, ...]


def operations(openapi: Mapping[str, Any]) -> list[Operation]:
    """Returns the operations of an API, in the order of its routes."""
    schemas = openapi.get("components", {}).get("schemas", {})
    listed = []
    for path, methods in openapi["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = methods[method]
                listed.append(
                    Operation(
                        method.upper(),
                        path,
                        operation.get("tags", ["other"])[0],
                        operation.get("summary", ""),
                        _paragraphs(operation.get("description", "")),
                        _role(operation),
                        tuple(_fields(operation, schemas)),
                    )
                )
    return listed


def as_markdown(openapi: Mapping[str, Any]) -> str:
    """Returns the reference in Markdown: a section for each group of routes."""
    lines = []
    group = None
    for operation in sorted(operations(openapi), key=lambda each: each.group):
        if operation.group != group:
            group = operation.group
            lines += [f"## {group[:1].upper()}{group[1:]}", ""]
        lines += [f"### `{operation.method} {operation.path}`", "", operation.text or operation.summary, ""]
        lines += [_requires(operation), ""]
        if operation.fields:
            lines += ["| Name | In | Type | |", "|---|---|---|---|"]
            lines += [f"| `{f.name}` | {f.place} | {_cell(f.type)} | {_cell(f.text)} |" for f in operation.fields]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def as_html(openapi: Mapping[str, Any]) -> str:
    """Returns the reference as a page without scripts."""
    parts = []
    group = None
    for operation in sorted(operations(openapi), key=lambda each: each.group):
        if operation.group != group:
            group = operation.group
            parts.append(f"<h2>{html.escape(group)}</h2>")
        parts.append(f"<h3><code>{html.escape(f'{operation.method} {operation.path}')}</code></h3>")
        for text in (operation.text or operation.summary, _requires(operation)):
            parts.append(f"<p>{html.escape(text)}</p>")
        rows = "".join(
            f"<tr><td><code>{html.escape(f.name)}</code><td>{f.place}<td>{html.escape(f.type)}<td>{html.escape(f.text)}"
            for f in operation.fields
        )
        parts.append(f"<table><tr><th>Name<th>In<th>Type<th>{rows}</table>" if rows else "")
    title = html.escape(f"{openapi['info']['title']} {openapi['info']['version']}: HTTP API")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    machine = '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
    body = f"<h1>{title}</h1>{machine}{''.join(parts)}"
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>'


def _requires(operation: Operation) -> str:
    if operation.role is None:
        return "Requires no token."
    if operation.role.endswith("-of-stores"):
        return f"Requires the role {operation.role.removesuffix('-of-stores')}; tokens that are limited to stores, too."
    return f"Requires the role {operation.role}."


def _role(operation: Mapping[str, Any]) -> str | None:
    return next((name for scheme in operation.get("security", ()) for name in scheme), None)


def _fields(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[Field]:
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        text = parameter.get("description") or schema.get("description", "")
        yield Field(parameter["name"], parameter["in"], _type(schema, schemas), _with_default(text, schema))
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(content.get("schema", {}), schemas)
        if not schema.get("properties"):
            yield Field(media, "body", _type(schema, schemas), schema.get("description", ""))
        for name, part in schema.get("properties", {}).items():
            yield Field(name, "body", _type(part, schemas), _with_default(part.get("description", ""), part))


def _with_default(text: str, schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    if default is None or default in ([], {}):
        return text
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return f"{text} Default: {shown}.".strip()


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        parts = ", ".join(schemas.get(name, {}).get("properties", ()))
        return f"object ({parts})" if parts else name
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(part, schemas) for part in schema[word]))
    if "enum" in schema or "const" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        inner = _type(schema["items"], schemas) if schema.get("items") else "values"
        return f"array of {inner}"
    return str(schema.get("type", "any"))


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    resolved: Mapping[str, Any] = schemas.get(schema["$ref"].rpartition("/")[2], {}) if "$ref" in schema else schema
    return resolved


def _paragraphs(text: str) -> str:
    """A docstring without its sections about arguments and errors, which tables have."""
    return re.split(r"\n\s*(?:Args|Attributes|Raises|Returns):", text, maxsplit=1)[0].strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
