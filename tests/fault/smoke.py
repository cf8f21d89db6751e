"""The application of the fault tests, with every family of operators, and its input.

Run it with ``python tests/fault/smoke.py DATA_DIR`` after `fill` has written the input. It ends when it has processed
all input. Keys and values of the output are text and JSON, so that a verifier does not depend on the application.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

from millstream import (
    App,
    Processor,
    Record,
    Stream,
    Windowed,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    until_window_closes,
)
from millstream.core.partitioning import partition_for
from millstream.log import ProducerRecord, open_log

APPLICATION = "smoke"
KEYS = [f"k{number:02d}" for number in range(20)]
PARTITIONS = 2
PER_KEY = 1000
SHUFFLED = 10
"""The number of records of a block, within which records are shuffled."""

BASE = 1_700_000_000_000
GRACE = 60_000
LONGEST_PAUSE = 20_000
"""The maximum lateness of a record. It is less than the grace period, so no record is dropped."""

TUMBLING, HOP, SLIDING, GAP, JOIN = 10_000, 5_000, 500, 1_500, 400
DEDUPLICATE, TICK = 2_000, 10_000
MODULUS = 1_000_003

INPUTS = ("left", "right", "rows", "beside")
GLOBAL = "small"
BESIDE = KEYS[:8]
"""The keys of ``beside``, an input that is read beside an internal topic behind two exchanges."""


class Given(NamedTuple):
    """A record of the input."""

    key: str
    value: int | None
    timestamp: int


# ----- the input ---------------------------------------------------------------------------------------------------


def inputs(seed: int, per_key: int = PER_KEY, *, distinct: bool = False) -> dict[str, list[Given]]:
    """The records of each topic in the order of their offsets.

    Half of the records of a key are in ``left``, a quarter in ``right`` and ``rows`` each. ``beside`` has as many as
    ``rows`` of some keys. The values of a key count from 0 in this order; its timestamps are out of order. The last
    records of all topics but ``rows``, one in each partition, have so great a timestamp that all windows close. If
    ``distinct``, no two records of one partition number have the same timestamp.
    """
    dice = random.Random(seed)
    times: dict[str, list[tuple[str, int]]] = {topic: [] for topic in INPUTS}
    now = BASE
    for start in range(0, per_key, 4):
        turn = [(key, INPUTS[max(0, n - 1)]) for key in KEYS for n in range(min(4, per_key - start))]
        turn += [(key, "beside") for key in BESIDE]
        dice.shuffle(turn)
        for key, topic in turn:
            now += dice.choice([1 if distinct else 0, 1, 5, 20, 50])
            times[topic].append((key, now))
        if dice.random() < 0.3:
            now += dice.choice([1000, 6000, LONGEST_PAUSE])
    topics = {topic: _numbered(topic, _shuffled(dice, records)) for topic, records in times.items()}
    for delay, topic in enumerate(("left", "right", "beside")):
        topics[topic] += [Given(key, 0, now + 100 * GRACE + delay) for key in last_keys()]
    return topics


def last_keys() -> list[str]:
    """A key for each partition, none of them in `KEYS`."""
    return [
        next(key for n in range(100) if partition_for((key := f"end-{n}").encode(), PARTITIONS) == partition)
        for partition in range(PARTITIONS)
    ]


def _shuffled(dice: random.Random, records: list[tuple[str, int]]) -> list[tuple[str, int]]:
    shuffled = []
    for start in range(0, len(records), SHUFFLED):
        block = records[start : start + SHUFFLED]
        dice.shuffle(block)
        shuffled += block
    return shuffled


def _numbered(topic: str, records: list[tuple[str, int]]) -> list[Given]:
    counts = dict.fromkeys(KEYS, 0)
    numbered = []
    for key, time in records:
        number = counts[key]
        counts[key] += 1
        deleted = topic == "rows" and number % 5 == 4
        numbered.append(Given(key, None if deleted else number, time))
    return numbered


def small() -> list[Given]:
    """The rows of the global table."""
    return [Given(f"v{number}", 100 + number, BASE) for number in range(7)]


def fill(
    directory: Path, seed: int, per_key: int = PER_KEY, *, distinct: bool = False, at_once: int | None = None
) -> None:
    """Writes the input; *at_once*: the number of records of an append, by default all of a topic."""
    with open_log(directory) as log:
        for topic, records in {**inputs(seed, per_key, distinct=distinct), GLOBAL: small()}.items():
            log.create_topic(topic, PARTITIONS)
            for start in range(0, len(records), at_once or len(records)):
                log.produce(topic, [_produced(record) for record in records[start : start + (at_once or len(records))]])


def _produced(record: Given) -> ProducerRecord:
    value = None if record.value is None else json.dumps(record.value).encode()
    return ProducerRecord(record.key.encode(), value, record.timestamp)


# ----- the application ---------------------------------------------------------------------------------------------


class Totals(Processor[str, int, str, Any]):
    """Counts the records of each key, and forwards all counts at intervals of stream time."""

    def init(self) -> None:
        self.totals = self.context.store("totals")
        self.context.schedule(TICK, "stream", self.report)

    def process(self, record: Record[str, int]) -> None:
        self.totals.put(record.key, (self.totals.get(record.key) or 0) + 1)

    def report(self, now: int) -> None:
        for key, count in self.totals.all():
            self.context.forward(Record(key, [now, count], now))


def number_of(key: str) -> int:
    return int(key.lstrip("kend-"))


def group_of(key: str) -> str:
    return f"g{number_of(key) % 4}"


def third_of(group: str, count: int) -> tuple[str, int]:
    """Key and value behind the second exchange. No two counts of groups have the same value."""
    return BESIDE[count % len(BESIDE)], 4 * count + int(group[1:])


def digest(value: int, agg: int) -> int:
    """A digest that depends on the order of the values."""
    return (agg * 31 + value + 1) % MODULUS


def pair(left: Any, right: Any) -> list[Any]:
    return [left, right]


def build(directory: Path | str, **config: Any) -> App:
    """The application with its data in a directory."""
    app = App(APPLICATION, config={"state.dir": str(directory), "status": "none", **config})
    left, right = app.stream("left"), app.stream("right")
    rows = app.table("rows", store="rows")
    everywhere = app.global_table(GLOBAL, store=GLOBAL)
    app.add_store("totals")
    branches = left.split({"even": lambda v: v % 2 == 0}, default="odd")
    for name, branch in branches.items():
        branch.to(name)
    branches["even"].map_values(lambda v: -v).merge(branches["odd"]).to("merged")

    grouped = left.group_by_key()
    counts = grouped.count(store="counts")
    second = (
        counts.to_stream().map(lambda k, v: (group_of(k), v), key=str).group_by_key(name="second").count(store="second")
    )
    third = second.to_stream().map(third_of, key=str).repartition(name="third")
    beside = app.stream("beside")
    latest = right.to_table(store="latest")
    tables = {
        "counts-out": counts,
        "by-value-out": left.group_by(lambda v: f"g{v % 5}", key=str, name="by-value").count(store="by-value"),
        "sums-out": grouped.reduce(lambda a, b: a + b, store="sums"),
        "digests-out": grouped.aggregate(lambda: 0, digest, store="digests"),
        "cogrouped-out": grouped.cogroup(digest)
        .cogroup(right.group_by_key(), lambda v, agg: digest(-v, agg))
        .aggregate(lambda: 0, store="cogrouped"),
        "joined-out": latest.join(rows, pair, store="joined"),
        "foreign-out": latest.left_join(rows, pair, on=lambda v: KEYS[v % len(KEYS)], store="foreign"),
        "regrouped-out": counts.group_by(lambda k, v: (group_of(k), v), key=str, name="regrouped").reduce(
            lambda a, b: a + b, lambda a, b: a - b, store="regrouped"
        ),
        "second-out": second,
        "third-out": beside.group_by_key()
        .cogroup(lambda v, agg: digest(-v, agg))
        .cogroup(third.group_by_key(), digest)
        .aggregate(lambda: 0, store="third"),
    }
    windows = {
        "tumbling-out": grouped.windowed_by(tumbling(TUMBLING, grace=GRACE)).count(store="tumbling"),
        "hops-out": grouped.windowed_by(hopping(TUMBLING, HOP, grace=GRACE), emit="close").count(store="hops"),
        "sliding-out": grouped.windowed_by(sliding(SLIDING, grace=GRACE)).count(store="sliding"),
        "sessions-out": grouped.windowed_by(session(GAP, grace=GRACE), emit="close").count(store="sessions"),
    }
    windows["closed-out"] = windows["tumbling-out"].suppress(until_window_closes(name="closed"))  # type: ignore[assignment]
    streams: dict[str, Stream[Any, Any]] = {
        "with-row": left.left_join(rows, pair),
        "with-small": left.left_join(everywhere, pair, on=lambda v: f"v{v % 9}"),
        "pairs": left.outer_join(right, pair, join_window(JOIN, grace=GRACE)),
        "third-pairs": beside.outer_join(third, pair, join_window(JOIN, grace=GRACE)),
        "fresh": left.deduplicate(DEDUPLICATE, by=lambda v: v % 3, store="seen"),
        "told": left.repartition(name="told").process(Totals, "totals", key=str),
        **{topic: table.to_stream() for topic, table in tables.items()},
        **{topic: table.to_stream().map(shown, key=str) for topic, table in windows.items()},
    }
    for topic, stream in streams.items():
        stream.to(topic, value=object)
    return app


def shown(key: Windowed[str], value: Any) -> tuple[str, Any]:
    return f"{key.key} {key.start} {key.end}", value


STORES = (
    *("rows", GLOBAL, "counts", "by-value", "sums", "digests", "cogrouped"),
    *("latest", "joined", "foreign", "regrouped", "second", "third", "totals"),
)
"""The stores that keep all their rows to the end."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--batch", type=int, default=1000, help="records in a batch")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="configuration")
    options = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in options.set)
    config = {"max.batch.records": options.batch, "min.batch.records": options.batch, **settings}
    app = build(options.directory, **config)
    app.run(until_caught_up=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
