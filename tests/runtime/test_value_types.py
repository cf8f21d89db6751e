"""Values of every type are the same in task hosts as in the test driver, wherever their types are defined."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from tests.runtime.kinds import KINDS
from tests.runtime.value_types import PLACES, check, run_kinds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

WAYS = ("driver", "host")


@pytest.mark.parametrize("annotations", ["string", "evaluated"])
def test_values_of_every_kind_are_read_changed_kept_and_written(annotations: str, tmp_path: Path) -> None:
    results = run_kinds(tmp_path, *WAYS, future=annotations == "string")
    for way, place, name in product(WAYS, PLACES, KINDS):
        check(results[way], place, name)
