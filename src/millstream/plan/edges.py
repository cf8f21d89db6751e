"""Describes the keys and values on an edge of the plan, from their serdes."""

from __future__ import annotations

from typing import Any

from millstream.expr import ANY, DataType, schema_of
from millstream.expr.description import Description, in_json, of_python, of_type
from millstream.expr.types import ArrayType, MapType, StructType
from millstream.serde import Serde
from millstream.serde.json_serde import JsonSerde


def type_of_values(serde: Serde[Any] | None) -> DataType:
    """Returns the type of a serde's values, against which expressions are checked; ``ANY`` if it is not known.

    Values of a Python type have its attributes. Others have the fields of the schema.
    """
    if serde is None:
        return ANY
    known = schema_of(serde.python_type)
    if known != ANY:
        return known
    described = serde.describe_values()
    return ANY if described is None else described.type


def description_of(serde: Serde[Any] | None) -> Description | None:
    """Returns what is known of a serde's values, for people and programs; None if nothing is."""
    if serde is None:
        return None
    described = serde.describe_values() or of_python(serde.python_type)
    return None if described.type == ANY and not described.fields else described


def with_type(serde: Serde[Any], type_: DataType) -> Serde[Any]:
    """Returns the serde with the type of the values that an expression computes, if it is JSON of any type."""
    is_nested = isinstance(type_, StructType | ArrayType | MapType)
    if not is_nested or type(serde) is not JsonSerde or serde.python_type is not object:
        return serde
    known: Serde[Any] = JsonSerde()
    known.described_as = of_type(in_json(type_))
    return known
