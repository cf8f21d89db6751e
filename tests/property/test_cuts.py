"""Data that is all there before the start gives the same output however it is cut into micro-batches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st
from tests.conformance import vectors
from tests.conformance.interpreter import Outputs, Topology
from tests.conformance.shapes import dump_stores

from millstream import TestDriver

WHOLE = [v for v in vectors.load() if "error" not in v and all("topic" in step for step in v["inputs"])]


def run(vector: dict[str, Any], batches: list[int]) -> tuple[Any, Any]:
    """Pipes all inputs of a vector, then lets them be processed in batches of these sizes."""
    app, stores = Topology(vectors.question(vector)).build()
    with TestDriver(app, batches=batches) as driver:
        for step in vector["inputs"]:
            headers = [(name, value) for name, value in step.get("headers", [])]
            driver.input(step["topic"]).pipe(step["key"], step["value"], timestamp=step["ts"], headers=headers)
        found = Outputs(driver).take()
        return vectors.by_topic(found), dump_stores(driver, stores, vector["inputs"], [found])


@settings(max_examples=300)
@given(st.sampled_from(WHOLE), st.data())
def test_cuts_change_nothing(vector: dict[str, Any], data: st.DataObject) -> None:
    """Any topology of the vectors, cut anywhere."""
    total = len(vector["inputs"])
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, total - 1))), label="cuts"))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
    assert run(vector, sizes) == run(vector, [total])
