"""Aggregate functions."""

from __future__ import annotations

from millstream.sql.functions.aggregates import collections, numbers, values

AGGREGATES = (*numbers.FUNCTIONS, *values.FUNCTIONS, *collections.FUNCTIONS)
