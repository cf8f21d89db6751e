"""Scalar functions."""

from __future__ import annotations

from millstream.sql.functions.scalar import collections, encodings, json, math, nulls, patterns, strings, time

SCALARS = (
    *nulls.FUNCTIONS,
    *math.FUNCTIONS,
    *strings.FUNCTIONS,
    *encodings.FUNCTIONS,
    *patterns.FUNCTIONS,
    *collections.FUNCTIONS,
    *json.FUNCTIONS,
    *time.FUNCTIONS,
)
