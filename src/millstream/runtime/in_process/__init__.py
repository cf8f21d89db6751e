"""Execution in the calling process, without Spark: for tests, benchmarks and debuggers."""

from __future__ import annotations
