"""Expressions: data that the DSL accepts in place of a function.

>>> from millstream.expr import col, when
>>> size = when(col("amount") > 100, "big").otherwise("small")
>>> print(size)
CASE WHEN amount > 100 THEN 'big' ELSE 'small' END
>>> compile_expr(size, ("value",))({"amount": 120})
'big'
"""

from __future__ import annotations

from millstream.expr import functions
from millstream.expr.build import agg, array, call, col, header, key, left, lit, right, struct, timestamp, value, when
from millstream.expr.check import type_of
from millstream.expr.codec import from_dict, to_dict
from millstream.expr.compile import compile_expr, evaluate
from millstream.expr.schema import as_type, schema_of
from millstream.expr.tree import Expr, roles_of
from millstream.expr.types import (
    ANY,
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    parse_type,
)

__all__ = [
    "ANY",
    "BIGINT",
    "BOOLEAN",
    "BYTES",
    "DATE",
    "DECIMAL",
    "DOUBLE",
    "INT",
    "NULL",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "ArrayType",
    "DataType",
    "DecimalType",
    "Expr",
    "MapType",
    "StructType",
    "agg",
    "array",
    "as_type",
    "call",
    "col",
    "compile_expr",
    "evaluate",
    "from_dict",
    "functions",
    "header",
    "key",
    "left",
    "lit",
    "parse_type",
    "right",
    "roles_of",
    "schema_of",
    "struct",
    "timestamp",
    "to_dict",
    "type_of",
    "value",
    "when",
]
