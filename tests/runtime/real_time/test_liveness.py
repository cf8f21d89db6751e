"""No record waits for ever in workers while others arrive all the time; the topologies are those of micro-batches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import wait_for
from tests.runtime.test_liveness import TOPOLOGIES, Case, at_times

CONFIG: dict[str, Any] = {
    "execution.mode": "local",
    "num.workers": 2,
    "commit.interval.ms": 10,
    "input.partitioning": "trust",
}


@at_times(TOPOLOGIES)
@pytest.mark.timeout(180)
def test_an_order_is_taken_while_clicks_arrive(kind: str, times: tuple[int, ...], tmp_path: Path) -> None:
    case = Case(tmp_path, kind, **CONFIG)

    def is_taken(key: str) -> bool:
        case.send_clicks()
        return key in case.taken()

    with case.app().start():
        case.send_clicks()
        wait_for(lambda: "taken" in {topic.name for topic in case.log.topics()})
        for time in times:
            key = f"o{time}"
            case.send("orders", key, time)
            wait_for(partial(is_taken, key))
        wait_for(lambda: sorted(case.taken()) == sorted(f"o{time}" for time in times))


@at_times(kind for kind in TOPOLOGIES if kind != "nothing sent")
@pytest.mark.timeout(180)
def test_a_click_passes_all_exchanges_while_clicks_and_orders_arrive(
    kind: str, times: tuple[int, ...], tmp_path: Path
) -> None:
    case = Case(tmp_path, kind, **CONFIG)

    def is_counted(key: str) -> bool:
        case.send_clicks()
        case.send_orders()
        return any(output.endswith(key) for output in case.taken("counted"))

    with case.app().start():
        case.send_clicks()
        wait_for(lambda: "counted" in {topic.name for topic in case.log.topics()})
        for time in times:
            key = f"c{time}"
            case.send("clicks", key, time)
            wait_for(partial(is_counted, key))
