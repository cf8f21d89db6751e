"""Every vector gives its expected results: outputs by step and topic in order, stores, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import vectors
from tests.conformance.interpreter import run_vector

VECTORS = vectors.load()


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    """Runs one step after the other."""
    vectors.check(vector, run_vector(vectors.question(vector)))


OPTIMIZED = [v for v in VECTORS if (v.get("config") or {}).get("optimization") != "all"]


@pytest.mark.parametrize("vector", OPTIMIZED, ids=[vector["name"] for vector in OPTIMIZED])
def test_optimization_changes_no_result(vector: dict[str, Any]) -> None:
    """The results with all optimizations are the same as without."""
    optimized = {**vector, "config": {**(vector.get("config") or {}), "optimization": "all"}}
    vectors.check(vector, run_vector(vectors.question(optimized)))


RESTARTED = [v for v in VECTORS if all(node.get("processor") != "ticker" for node in v["topology"])]


@pytest.mark.parametrize("vector", RESTARTED, ids=[vector["name"] for vector in RESTARTED])
def test_restart_after_every_step_changes_no_result(vector: dict[str, Any]) -> None:
    """Changelogs and cells contain all state: an application that restarts from them after each step gives the same.

    A ticker is left out: it counts in the processor itself, outside of its state.
    """
    vectors.check(vector, run_vector(vectors.question(vector), restart=True))
