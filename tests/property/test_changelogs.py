"""A store that is restored from its changelog equals the original, and a restored application continues as before."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st
from tests.conformance import vectors
from tests.conformance.interpreter import Outputs, Topology
from tests.conformance.shapes import dump_stores

from millstream import TestDriver

VECTORS = [
    v
    for v in vectors.load()
    if "error" not in v and v["stores"] and all(node.get("processor") != "ticker" for node in v["topology"])
]


@settings(max_examples=200)
@given(st.sampled_from(VECTORS), st.data())
def test_a_restored_application_has_the_same_stores(vector: dict[str, Any], data: st.DataObject) -> None:
    """Restarts after any steps, with complete or compacted changelogs, do not change the final stores."""
    steps = data.draw(st.sets(st.integers(0, len(vector["inputs"]) - 1)), label="restart after")
    app, stores = Topology(vectors.question(vector)).build()
    with TestDriver(app, wall_clock=vector.get("wall_clock_ms", 0)) as driver:
        reader = Outputs(driver)
        outputs = []
        for index, step in enumerate(vector["inputs"]):
            if "topic" in step:
                headers = [(name, value) for name, value in step.get("headers", [])]
                driver.input(step["topic"]).pipe(step["key"], step["value"], timestamp=step["ts"], headers=headers)
            else:
                driver.advance_wall_clock(step["advance_wall_clock_ms"])
            outputs.append(reader.take())
            if index in steps:
                driver.restart(compact=data.draw(st.booleans(), label="compact"))
        assert dump_stores(driver, stores, vector["inputs"], outputs) == vector["stores"]
