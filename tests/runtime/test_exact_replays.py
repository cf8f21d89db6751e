"""A join behind two exchanges, on a backlog: it finds all matches, in the order of the test driver."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.runtime.backlogs import (
    GRACE,
    MINUTE,
    WINDOW,
    Arrivals,
    driven,
    every_batch_size,
    every_task_count,
    record,
    results,
    write,
)

from millstream import App, join_window
from millstream.log import Log, open_log
from millstream.runtime.in_process.batches import InProcessRun

PARCEL_INPUTS = ("scans", "shipments")


def parcels(directory: Path, tasks: int, **config: Any) -> App:
    """Scans pass two reductions, with a change of key behind each, before they are joined."""
    app = App("parcels", config={"state.dir": str(directory), "num.tasks": tasks, **config})
    scans = app.stream("scans").group_by_key().reduce(lambda _last, scan: scan, store="parcels").to_stream()
    vans = scans.select_key(lambda scan: scan["van"], key=str).group_by_key().reduce(lambda _last, scan: scan)
    by_order = vans.to_stream().select_key(lambda scan: scan["order"], key=str)
    shipments = app.stream("shipments")
    shipments.join(
        by_order,
        lambda shipment, scan: [shipment["number"], scan["number"]],
        join_window(WINDOW, grace=GRACE),
    ).to("shipped")
    return app


def fill_parcels(log: Log, count: int = 300) -> set[tuple[int, int]]:
    """Writes an hour of scans and shipments; returns the pairs of numbers that the join must find.

    Scans are written in the order of time. A row of `reduce` therefore has the timestamp of its last scan.
    """
    rng = random.Random(20)
    topics: Arrivals = {"scans": [], "shipments": []}
    placed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    scanned: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number in range(count):
        at, order = number * 60 * MINUTE // count, f"o{rng.randrange(count // 4)}"
        placed[order].append((at, number))
        topics["shipments"].append((at, record(order, {"number": number}, at)))
        at, order = at + rng.randrange(MINUTE), f"o{rng.randrange(count // 4)}"
        scanned[order].append((at, number))
        scan = {"van": f"v{rng.randrange(12)}", "order": order, "number": number}
        topics["scans"].append((at, record(f"s{rng.randrange(count // 2)}", scan, at)))
    write(log, topics)
    return {
        (shipment, scan)
        for order, shipments in placed.items()
        for at, shipment in shipments
        for then, scan in scanned[order]
        if abs(then - at) <= WINDOW
    }


@every_task_count
@every_batch_size
def test_a_join_behind_two_exchanges_finds_every_match(records: int, tasks: int, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    matches = fill_parcels(log)
    with InProcessRun(parcels(tmp_path, tasks), records=records) as run:
        run.run()
    outputs = results(log, ["shipped"])
    pairs = Counter(tuple(json.loads(value or b"")) for rows in outputs["shipped"].values() for value, _time in rows)
    assert pairs == Counter(matches)
    assert outputs == driven(parcels(tmp_path, tasks), log, PARCEL_INPUTS, ["shipped"], partitions=1)


def test_without_exact_replays_a_backlog_loses_matches(tmp_path: Path) -> None:
    """The switch has an effect, and the input shows the difference."""
    log = open_log(tmp_path)
    matches = fill_parcels(log)
    with InProcessRun(parcels(tmp_path, 4, **{"exact.replays": False}), records=101) as run:
        run.run()
    assert 0 < sum(len(rows) for rows in results(log, ["shipped"])["shipped"].values()) < len(matches)
