"""Every vector gives what it should: outputs per step and topic in order, stores, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import vectors
from tests.conformance.interpreter import run_vector

VECTORS = vectors.load()


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    """A vector, step by step."""
    vectors.check(vector, run_vector(vectors.question(vector)))


OPTIMIZED = [v for v in VECTORS if (v.get("config") or {}).get("optimization") != "all"]


@pytest.mark.parametrize("vector", OPTIMIZED, ids=[vector["name"] for vector in OPTIMIZED])
def test_optimization_changes_no_result(vector: dict[str, Any]) -> None:
    """The same vector with all optimisations gives the same."""
    optimized = {**vector, "config": {**(vector.get("config") or {}), "optimization": "all"}}
    vectors.check(vector, run_vector(vectors.question(optimized)))


RESTARTED = [v for v in VECTORS if all(node.get("processor") != "ticker" for node in v["topology"])]


@pytest.mark.parametrize("vector", RESTARTED, ids=[vector["name"] for vector in RESTARTED])
def test_restart_after_every_step_changes_no_result(vector: dict[str, Any]) -> None:
    """All state is in changelogs and cells: an application that is rebuilt from them after each step goes on as before.

    (A ticker counts in the processor itself, which is not state.)
    """
    vectors.check(vector, run_vector(vectors.question(vector), restart=True))
