"""Streaming SQL in ksqlDB's dialect: text, syntax tree, bound tree, plan.

`udf`, `udtf` and `udaf` make Python functions and classes functions of SQL.
"""

from __future__ import annotations

from millstream.sql.functions.user import udaf, udf, udtf

__all__ = ["udaf", "udf", "udtf"]
