"""Values of every type on Spark: one application for all of them, started as a script."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from tests.runtime.kinds import KINDS
from tests.runtime.value_types import PLACES, check, run_kinds

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_values_of_every_kind_are_the_same_on_spark_as_in_the_driver(tmp_path: Path) -> None:
    """Each type is defined in one of the places. `tests.runtime.test_value_types` has every type in every place."""
    results = run_kinds(tmp_path, "driver", "spark")
    chosen = [pair for pair in product(PLACES, KINDS) if "{}.{}.last".format(*pair) in results["spark"]]
    assert {name for _place, name in chosen} == set(KINDS)
    assert {place for place, _name in chosen} == set(PLACES)
    for place, name in chosen:
        check(results["spark"], place, name)
    assert {topic: sorted(records) for topic, records in results["spark"].items()} == {
        topic: sorted(records) for topic, records in results["driver"].items()
    }
