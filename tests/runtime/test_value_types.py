"""Values of every type are the same in task hosts as in the test driver, wherever their types are defined."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.kinds import KINDS
from tests.runtime.value_types import PLACES, Results, expected, letters, run_kinds

WAYS = ("driver", "host")


@pytest.fixture(scope="module", params=["string annotations", "evaluated annotations"])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    directory: Path = tmp_path_factory.mktemp("kinds")
    return run_kinds(directory, *WAYS, future=request.param == "string annotations")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", KINDS)
def test_values_of_every_kind_are_read_changed_kept_and_written(
    results: Results, name: str, place: str, way: str
) -> None:
    topics = results[way]
    last, counts = expected(KINDS[name])
    assert [value for _key, value in topics[f"{place}.{name}.last"]] == last
    assert topics[f"{place}.{name}.counts"] == counts
    assert letters(topics, f"{place}.{name}") == [KINDS[name].invalid.decode()]
