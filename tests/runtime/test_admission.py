"""Admission control: the size of batches is limited by records and by the target time, whatever the backlog."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from millstream import App, join_window
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.batches.pacing import Pacing
from millstream.runtime.in_process.batches import InProcessRun

COUNT = 300
PARTITIONS = 3


class Sizes:
    """The number of records that each batch has read."""

    def __init__(self) -> None:
        self.all: list[int] = []
        self._positions: dict[tuple[str, int], int] = {}

    def add(self, run: InProcessRun) -> int:
        offsets = {(topic, part): end for result in run.results for topic, part, _begin, end in result.offsets}
        self.all.append(sum(end - self._positions.get(place, 0) for place, end in offsets.items()))
        self._positions |= offsets
        return self.all[-1]


def multiplied(directory: Path, times: int, *, joined: bool) -> App:
    """Multiplies the records behind a stateful operator, so that they pass through a repartition topic."""
    dice = random.Random(1)
    with open_log(directory) as log:
        for topic, keys in (("in", 7), ("side", 13)):
            log.create_topic(topic, PARTITIONS)
            records = [(b"x%d" % (n % keys), b"%d" % n, n * 10 + dice.randrange(30)) for n in range(COUNT)]
            log.produce(topic, [ProducerRecord(*record) for record in records])
    app = App("many", config={"state.dir": str(directory), "status": "none"})
    counts = app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    many = counts.to_stream().flat_map(
        lambda _key, count: [(f"x{n % 13}", count * 1000 + n) for n in range(times)], key=str, value=int
    )
    again = many.repartition(name="again")
    again.group_by_key().reduce(lambda a, b: a + b, store="sums")
    if joined:
        side = app.stream("side", key=str, value=str)
        pairs = again.join(side, lambda _many, _side: 1, join_window(40, grace="1h"))
        pairs.group_by_key().count(store="pairs")
    return app


def rows(app: App, *, joined: bool) -> dict[str, dict[Any, Any]]:
    return {store: dict(app.store(store).all()) for store in ("sums", *(["pairs"] if joined else []))}


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined with an input"])
@pytest.mark.parametrize("times", [1, 3, 20])
def test_records_of_repartition_topics_are_read_in_batches_of_the_same_size(
    tmp_path: Path, times: int, joined: bool
) -> None:
    most = 60
    (tmp_path / "whole").mkdir()
    whole = multiplied(tmp_path / "whole", times, joined=joined)
    with InProcessRun(whole) as run:
        assert run.run() <= 3
    (tmp_path / "cut").mkdir()
    cut = multiplied(tmp_path / "cut", times, joined=joined)
    sizes = Sizes()
    with InProcessRun(cut, records=most) as run:
        while run.batch():
            assert sizes.add(run) <= most + 3 * PARTITIONS  # at least one record of each partition
            assert sum(result.waiting for result in run.results) <= 5 * most
    total = COUNT * (1 + times + joined)
    assert sum(sizes.all) == total
    assert len(sizes.all) <= 1.15 * total / most + 2, "batches are full, and no topic keeps others waiting"
    assert rows(cut, joined=joined) == rows(whole, joined=joined)


def test_inputs_are_read_while_internal_topics_have_more_than_a_batch(tmp_path: Path) -> None:
    """Otherwise the results of new records would wait for the whole backlog of internal topics."""
    app = multiplied(tmp_path, 20, joined=False)
    log: Log = open_log(tmp_path)
    own, seen = "many-again-repartition", []
    with InProcessRun(app, records=60) as run:
        while run.batch():
            unread = sum(log.ends([own])[own]) - sum(
                end for result in run.results for topic, _part, _begin, end in result.offsets if topic == own
            )
            seen.append(
                (unread, sum(end for result in run.results for topic, _, _, end in result.offsets if topic == "in"))
            )
    crowded = [read for unread, read in seen if unread > 60]
    assert len(crowded) > 10
    assert all(after > before for before, after in pairwise(crowded[:10]))


def test_batches_converge_to_the_target_time(tmp_path: Path) -> None:
    """The batches of a backlog: each takes a fixed 100 ms, and a millisecond per record."""
    log = open_log(tmp_path)
    log.create_topic("in", PARTITIONS)
    log.produce("in", [ProducerRecord(b"k%d" % (n % 50), b"v", n) for n in range(40_000)])
    app = App("pace", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    pacing = Pacing(target_ms=500, least=100, most=5_000)
    sizes = Sizes()
    with InProcessRun(app, records=pacing.records) as run:
        while run.batch():
            count = sizes.add(run)
            pacing.learn(count, 0.1 + count / 1000, count / 1000)
            run.change(records=pacing.records)
    assert sizes.all[0] == pytest.approx(5_000, abs=PARTITIONS)
    assert max(sizes.all) <= 5_000 + PARTITIONS
    assert all(size == pytest.approx(400, rel=0.15) for size in sizes.all[8:-3])
    assert sum(sizes.all) == 40_000
    assert sum(count for _key, count in app.store("counts").all()) == 40_000
