"""The backlogs of `tests.runtime.test_exact_replays` and of the shop, in real-time mode."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.property.real_time import Start, run_application, starts
from tests.runtime.backlogs import PARTITIONS, driven, results
from tests.runtime.test_exact_replays import PARCEL_INPUTS, fill_parcels, parcels
from tests.runtime.test_exact_replays_shop import SHOP_OUTPUTS, expected_of_shop, fill_shop, matched, shop

from millstream.log import open_log

ALL = Start(1, 1_000_000, 50_000)
RUNS = {
    "one worker": (ALL,),
    "two workers": (Start(2, 40, 50_000),),
    "many buffered": (Start(3, 20, 30),),
    "restarts": (*starts(4)[:-1], *starts(8)[:-1], Start(2, 60, 50_000)),
}
every_run = pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS)


@every_run
@pytest.mark.timeout(120)
def test_a_join_behind_two_exchanges_finds_every_match(runs: tuple[Start, ...], tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        matches = fill_parcels(log)
        for start in runs:
            run_application(lambda **config: parcels(tmp_path, PARTITIONS, **config), start)
        outputs = results(log, ["shipped"])
        pairs = Counter(tuple(json.loads(value or b"")) for rows in outputs["shipped"].values() for value, _ in rows)
        assert pairs == Counter(matches)
        assert outputs == driven(parcels(tmp_path, PARTITIONS), log, PARCEL_INPUTS, ["shipped"], partitions=1)


@every_run
@pytest.mark.timeout(120)
def test_a_join_beside_a_processor_of_the_same_rekeyed_stream_finds_every_match(
    runs: tuple[Start, ...], tmp_path: Path
) -> None:
    def app(**config: Any) -> Any:
        return shop(tmp_path, PARTITIONS, **config)

    with open_log(tmp_path) as log:
        matches = fill_shop(log)
        for start in runs:
            run_application(app, start)
        outputs = results(log, (*SHOP_OUTPUTS, "reminders"))
        assert matched(outputs) == matches
        assert {key: len(rows) for key, rows in outputs["paid"].items() if len(rows) > 1} == {}
        assert outputs == expected_of_shop(log, tmp_path, PARTITIONS)
