"""Changes of an Avro schema: which of the two can read the records of the other."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """A change of a schema.

    Attributes:
        name: The name of the test.
        old: The earlier version.
        new: The next one.
        backward: The path of the field that the new schema cannot read; None if it can read all records of the old one.
        forward: The same for the old schema and records of the new one.
    """

    name: str
    old: Any
    new: Any
    backward: str | None = None
    forward: str | None = None


def record(*fields: Any, name: str = "Order", **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def field(name: str, type: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **attributes}


def enum(*symbols: str, name: str = "Colour", **attributes: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **attributes}


def fixed(size: int, name: str = "Hash", **attributes: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **attributes}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


ID = field("id", "long")
TOP = "the schema"


def _tree(value: str) -> dict[str, Any]:
    return record(field("value", value), field("children", array("Tree")), name="Tree")


CASES = [
    Case("a-field-with-a-default-is-added", record(ID), record(ID, field("note", "string", default=""))),
    Case("a-field-without-a-default-is-added", record(ID), record(ID, field("note", "string")), "note"),
    Case("a-field-with-a-default-is-removed", record(ID, field("note", "string", default="")), record(ID)),
    Case("a-field-without-a-default-is-removed", record(ID, field("note", "string")), record(ID), None, "note"),
    Case("a-nullable-field-still-needs-a-default", record(), record(field("note", ["null", "string"])), "note"),
    Case("fields-change-their-order", record(ID, field("a", "int")), record(field("a", "int"), ID)),
    Case("doc-is-added", record(ID), record(field("id", "long", doc="of the order"), doc="an order")),
    Case("int-becomes-long", record(field("n", "int")), record(field("n", "long")), None, "n"),
    Case("int-becomes-float", record(field("n", "int")), record(field("n", "float")), None, "n"),
    Case("int-becomes-double", record(field("n", "int")), record(field("n", "double")), None, "n"),
    Case("long-becomes-float", record(field("n", "long")), record(field("n", "float")), None, "n"),
    Case("long-becomes-double", record(field("n", "long")), record(field("n", "double")), None, "n"),
    Case("float-becomes-double", record(field("n", "float")), record(field("n", "double")), None, "n"),
    Case("string-becomes-bytes", record(field("n", "string")), record(field("n", "bytes"))),
    Case("long-becomes-string", record(field("n", "long")), record(field("n", "string")), "n", "n"),
    Case("boolean-becomes-int", record(field("n", "boolean")), record(field("n", "int")), "n", "n"),
    Case("string-becomes-nullable", record(field("n", "string")), record(field("n", ["null", "string"])), None, "n"),
    Case("a-branch-is-added", record(field("n", ["int"])), record(field("n", ["int", "string"])), None, "n"),
    Case("a-branch-is-promoted", record(field("n", ["null", "int"])), record(field("n", ["null", "long"])), None, "n"),
    Case("branches-change-their-order", ["null", "string"], ["string", "null"]),
    Case("a-union-narrows-to-one-type", record(field("n", ["int", "long"])), record(field("n", "double")), None, "n"),
    Case("a-union-of-promotable-types", record(field("n", ["int", "long"])), record(field("n", "long"))),
    Case("a-symbol-is-added", record(field("c", enum("RED"))), record(field("c", enum("RED", "BLUE"))), None, "c"),
    Case(
        "a-symbol-is-added-and-both-have-a-default-symbol",
        record(field("c", enum("RED", default="RED"))),
        record(field("c", enum("RED", "BLUE", default="RED"))),
    ),
    Case("an-enum-becomes-a-string", record(field("c", enum("RED"))), record(field("c", "string")), "c", "c"),
    Case("an-enum-is-renamed", record(field("c", enum("A"))), record(field("c", enum("A", name="Hue"))), "c", "c"),
    Case("a-record-is-renamed", record(ID), record(ID, name="Purchase"), TOP, TOP),
    Case("a-record-is-renamed-with-an-alias", record(ID), record(ID, name="Purchase", aliases=["Order"]), None, TOP),
    Case("a-namespace-is-added", record(ID), record(ID, namespace="com.example")),
    Case("a-field-is-renamed", record(field("a", "int")), record(field("b", "int")), "b", "a"),
    Case(
        "a-field-is-renamed-with-an-alias",
        record(field("a", "int")), record(field("b", "int", aliases=["a"])), None, "a",
    ),
    Case("an-alias-is-ambiguous", record(field("a", "int"), field("b", "int")),
         record(field("a", "int"), field("b", "int", aliases=["a"])), "b"),
    Case("a-fixed-changes-its-size", record(field("h", fixed(4))), record(field("h", fixed(8))), "h", "h"),
    Case("elements-are-promoted", record(field("n", array("int"))), record(field("n", array("long"))), None, "n[]"),
    Case("values-of-a-map-change",
         record(field("n", map_of("int"))), record(field("n", map_of("string"))), "n{}", "n{}"),
    Case("an-array-becomes-a-map", record(field("n", array("int"))), record(field("n", map_of("int"))), "n", "n"),
    Case("a-logical-type-is-added", "long", {"type": "long", "logicalType": "timestamp-millis"}),
    Case(
        "a-field-deep-inside-changes",
        record(field("lines", array(record(field("price", "int"), name="Line")))),
        record(field("lines", array(record(field("price", "string"), name="Line")))),
        "lines[].price",
        "lines[].price",
    ),
    Case(
        "a-field-of-a-nullable-record-is-added",
        record(field("to", ["null", record(field("city", "string"), name="Address")])),
        record(field("to", ["null", record(field("city", "string"), field("zip", "string"), name="Address")])),
        "to.zip",
    ),
    Case("a-recursive-record-is-the-same", _tree("int"), _tree("int")),
    Case("a-recursive-record-changes", _tree("int"), _tree("string"), "value", "value"),
    Case("a-recursive-record-is-promoted", _tree("int"), _tree("double"), None, "value"),
    Case("a-primitive-is-promoted", "int", "double", None, TOP),
    Case("a-primitive-changes", "int", "string", TOP, TOP),
]  # fmt: skip
