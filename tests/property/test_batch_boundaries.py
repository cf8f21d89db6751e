"""The output of records that are in the log before the start does not depend on batch boundaries."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st
from tests.conformance import vectors
from tests.conformance.interpreter import Outputs, Topology
from tests.conformance.shapes import dump_stores

from millstream import TestDriver

WHOLE = [v for v in vectors.load() if "error" not in v and all("topic" in step for step in v["inputs"])]


def run(vector: dict[str, Any], batches: list[int]) -> tuple[Any, Any]:
    """Pipes all inputs of a vector, then processes them in batches of these sizes."""
    app, stores = Topology(vectors.question(vector)).build()
    with TestDriver(app, batches=batches) as driver:
        for step in vector["inputs"]:
            headers = [(name, value) for name, value in step.get("headers", [])]
            driver.input(step["topic"]).pipe(step["key"], step["value"], timestamp=step["ts"], headers=headers)
        outputs = Outputs(driver).take()
        return vectors.by_topic(outputs), dump_stores(driver, stores, vector["inputs"], [outputs])


@settings(max_examples=300)
@given(st.sampled_from(WHOLE), st.data())
def test_batch_boundaries_do_not_change_the_output(vector: dict[str, Any], data: st.DataObject) -> None:
    """Any topology of the vectors, with any batch boundaries."""
    total = len(vector["inputs"])
    bounds = sorted(data.draw(st.sets(st.integers(1, max(1, total - 1))), label="batch boundaries"))
    sizes = [b - a for a, b in zip([0, *bounds], [*bounds, total], strict=True)]
    assert run(vector, sizes) == run(vector, [total])
