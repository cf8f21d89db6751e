"""Values of every type on Spark: one application for all of them, started as a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.kinds import KINDS
from tests.runtime.value_types import PLACES, expected, letters, run_kinds

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_values_of_every_kind_are_the_same_on_spark_as_in_the_driver(tmp_path: Path) -> None:
    results = run_kinds(tmp_path, "driver", "spark")
    for place in PLACES:
        for name, kind in KINDS.items():
            topics = results["spark"]
            last, counts = expected(kind)
            assert [value for _key, value in topics[f"{place}.{name}.last"]] == last
            assert topics[f"{place}.{name}.counts"] == counts
            assert letters(topics, f"{place}.{name}") == [kind.invalid.decode()]
    assert {topic: sorted(records) for topic, records in results["spark"].items()} == {
        topic: sorted(records) for topic, records in results["driver"].items()
    }
