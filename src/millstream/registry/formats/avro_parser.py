"""Parses Avro schemas, strictly, with the path of each mistake.

Registries hold schemas of strangers. The parser therefore limits the depth of a schema, and checks what fastavro
accepts: duplicate fields, illegal names, unions in unions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from millstream.errors import InvalidSchemaError, suggestion

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")
MAX_DEPTH = 200

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGERS = {"int": 2**31, "long": 2**63}
_ABSENT: Any = object()


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any = _ABSENT
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        """Whether the field has a default."""
        return self.default is not _ABSENT


@dataclass(slots=True, eq=False)
class AvroType:
    """A parsed type. A recursive schema is a cyclic graph of these.

    Attributes:
        kind: The name of a primitive type, or ``record``, ``enum``, ``fixed``, ``array``, ``map`` or ``union``.
        name: The full name of a record, enum or fixed.
        aliases: Its aliases, as full names.
        fields: The fields of a record.
        symbols: The symbols of an enum.
        default: The default symbol of an enum.
        size: The size of a fixed.
        items: The type of the elements of an array, or of the values of a map.
        branches: The branches of a union.
        properties: All other attributes: ``doc``, ``logicalType``, …
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        """Names the type in a message."""
        logical = self.properties.get("logicalType")
        text = f"{self.kind} {self.name}".rstrip()
        if self.kind == "union":
            text = f"a union of {', '.join(map(str, self.branches)) or 'nothing'}"
        return f"{text} ({logical})" if isinstance(logical, str) else text


class AvroSchema(NamedTuple):
    """A parsed schema.

    Attributes:
        root: Its type.
        referenced: The full names of the types that other schemas define.
    """

    root: AvroType
    referenced: frozenset[str]


def parse_json(text: str) -> Any:
    """Parses the JSON of a schema.

    Raises:
        InvalidSchemaError: It is not JSON, or it is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise InvalidSchemaError(f"the schema is not JSON: {error}") from None


def parse_avro(text: str, references: Iterable[str] = ()) -> AvroSchema:
    """Parses a schema.

    Args:
        text: The schema as JSON.
        references: The schemas that it refers to; each one may use the types of those before it.

    Raises:
        InvalidSchemaError: It is not a schema.
    """
    parser = _Parser()
    for reference in references:
        parser.parse(parse_json(reference), "", "", 0)
    referenced = frozenset(parser.types)
    return AvroSchema(parser.parse(parse_json(text), "", "", 0), referenced)


class _Parser:
    def __init__(self) -> None:
        self.types: dict[str, AvroType] = {}

    def parse(self, node: Any, namespace: str, path: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(node, str):
            return self._named(node, namespace, path)
        if isinstance(node, list):
            return self._union(node, namespace, path, depth)
        if not isinstance(node, dict):
            raise _invalid(path, f"a type is text, an object or a list, not {_show(node)}")
        kind = node.get("type")
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace, path, depth + 1)
        if kind in PRIMITIVES:
            return AvroType(kind, properties=_rest(node, "type"))
        if kind == "array":
            items = self.parse(_required(node, "items", path), namespace, f"{path}[]", depth + 1)
            return AvroType("array", items=items, properties=_rest(node, "type", "items"))
        if kind == "map":
            values = self.parse(_required(node, "values", path), namespace, f"{path}{{}}", depth + 1)
            return AvroType("map", items=values, properties=_rest(node, "type", "values"))
        if kind in NAMED:
            return self._definition(node, namespace, path, depth)
        if isinstance(kind, str):
            return self._named(kind, namespace, path)
        raise _invalid(path, "the object has no type" if kind is None else f"{_show(kind)} is not a type")

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        definition = self.types.get(full) or self.types.get(name)
        if definition is None:
            hint = suggestion(name, [*PRIMITIVES, *self.types]) or "a type of another schema needs a reference to it"
            raise _invalid(path, f"there is no type {_show(name)}", hint=hint)
        return definition

    def _union(self, nodes: list[Any], namespace: str, path: str, depth: int) -> AvroType:
        branches = [self.parse(node, namespace, path, depth + 1) for node in nodes]
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise _invalid(path, "a union must not contain a union")
            key = branch.name or branch.kind
            if key in seen:
                raise _invalid(path, f"the union contains {key} twice")
            seen.add(key)
        return AvroType("union", branches=branches)

    def _definition(self, node: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        name = _full_name(node, namespace, path)
        inner = name.rpartition(".")[0]
        if name in self.types:
            raise _invalid(path, f"the type {name} is defined twice")
        kind = "record" if node["type"] == "error" else node["type"]
        aliases = tuple(_qualified(alias, inner) for alias in _texts(node, "aliases", path))
        made = self.types[name] = AvroType(kind, name, aliases)
        used = ["type", "name", "namespace", "aliases"]
        if kind == "record":
            self._fill(made, _required(node, "fields", path), inner, path, depth)
            used.append("fields")
        elif kind == "enum":
            made.symbols = _symbols(node, path)
            made.default = node.get("default")
            if made.default is not None and made.default not in made.symbols:
                raise _invalid(path, f"the default {_show(made.default)} is none of the symbols")
            used += ["symbols", "default"]
        else:
            size = _required(node, "size", path)
            if type(size) is not int or size < 0:
                raise _invalid(path, f"the size {_show(size)} is not a number of bytes")
            made.size = size
            used.append("size")
        made.properties = _rest(node, *used)
        return made

    def _fill(self, record: AvroType, fields: Any, namespace: str, path: str, depth: int) -> None:
        if not isinstance(fields, list):
            raise _invalid(path, "the fields are not a list")
        names = set()
        for node in fields:
            if not isinstance(node, dict):
                raise _invalid(path, f"a field is an object, not {_show(node)}")
            name = node.get("name")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise _invalid(path, f"{_show(name)} is not a name of a field")
            if name in names:
                raise _invalid(path, f"the field {name} occurs twice")
            names.add(name)
            inner = f"{path}.{name}" if path else name
            of_type = self.parse(_required(node, "type", inner), namespace, inner, depth + 1)
            default = node.get("default", _ABSENT)
            made = AvroField(name, of_type, default, tuple(_texts(node, "aliases", inner)), _rest_of_field(node))
            record.fields.append(made)
            if default is not _ABSENT and not _is_default(default, of_type):
                raise _invalid(inner, f"the default {_show(default)} does not match the type {of_type}")


# ----- defaults ------------------------------------------------------------------------------------------------------


def _is_default(value: Any, of_type: AvroType, depth: int = 0) -> bool:
    kind = of_type.kind
    if depth > MAX_DEPTH:
        return False
    if kind == "union":
        return any(_is_default(value, branch, depth + 1) for branch in of_type.branches)
    if kind == "array":
        items = of_type.items
        return isinstance(value, list) and items is not None and all(_is_default(v, items, depth + 1) for v in value)
    if kind == "map":
        items = of_type.items
        return (
            isinstance(value, dict)
            and items is not None
            and all(_is_default(v, items, depth + 1) for v in value.values())
        )
    if kind == "record":
        return isinstance(value, dict) and all(
            _is_default(value[each.name], each.type, depth + 1) if each.name in value else each.has_default
            for each in of_type.fields
        )
    return _is_scalar_default(value, of_type)


def _is_scalar_default(value: Any, of_type: AvroType) -> bool:
    kind = of_type.kind
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _INTEGERS:
        return type(value) is int and -_INTEGERS[kind] <= value < _INTEGERS[kind]
    if kind in {"float", "double"}:
        return type(value) in {int, float}
    if kind == "enum":
        return value in of_type.symbols
    if kind == "string":
        return isinstance(value, str)
    is_bytes = isinstance(value, str) and all(ord(character) < 256 for character in value)
    return is_bytes and (kind == "bytes" or len(value) == of_type.size)


# ----- attributes ----------------------------------------------------------------------------------------------------


def _full_name(node: dict[str, Any], namespace: str, path: str) -> str:
    name, own = node.get("name"), node.get("namespace", namespace)
    if not isinstance(name, str):
        raise _invalid(path, f"the {node['type']} has no name")
    if not isinstance(own, str):
        raise _invalid(path, f"the namespace {_show(own)} is not text")
    full = _qualified(name, own)
    if not all(_NAME.fullmatch(part) for part in full.split(".")):
        raise _invalid(path, f"{_show(full)} is not a name: its parts consist of letters, digits and '_'")
    return full


def _qualified(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _symbols(node: dict[str, Any], path: str) -> tuple[str, ...]:
    symbols = _texts(node, "symbols", path)
    if "symbols" not in node:
        raise _invalid(path, "the enum has no symbols")
    for number, symbol in enumerate(symbols):
        if not _NAME.fullmatch(symbol):
            raise _invalid(path, f"{_show(symbol)} is not a symbol: it consists of letters, digits and '_'")
        if symbol in symbols[:number]:
            raise _invalid(path, f"the symbol {symbol} occurs twice")
    return tuple(symbols)


def _texts(node: dict[str, Any], key: str, path: str) -> list[str]:
    texts = node.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _invalid(path, f"{key} is not a list of names")
    return texts


def _required(node: dict[str, Any], key: str, path: str) -> Any:
    if key not in node:
        raise _invalid(path, f"{key} is missing")
    return node[key]


def _rest(node: dict[str, Any], *used: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in used}


def _rest_of_field(node: dict[str, Any]) -> dict[str, Any]:
    return _rest(node, "name", "type", "default", "aliases")


def _invalid(path: str, problem: str, *, hint: str | None = None) -> InvalidSchemaError:
    return InvalidSchemaError(f"not an Avro schema: {path or 'at its top'}: {problem}", hint=hint)


def _too_deep() -> InvalidSchemaError:
    return InvalidSchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:60]}…"
