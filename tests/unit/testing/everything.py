"""An application with every kind of store and buffer, and records for it."""

from __future__ import annotations

import random
from typing import Any

from millstream import (
    App,
    Materialized,
    Processor,
    Record,
    Stream,
    Table,
    TestDriver,
    Windowed,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    until_time_limit,
    until_window_closes,
)
from millstream.state.stores import ValueAndTimestamp


class Remember(Processor[str, int, str, int]):
    """Uses a store of each kind, and punctuators on both clocks; has no other state."""

    def init(self) -> None:
        self.plain, self.timed, self.window, self.session, self.versions = (
            self.context.store(f"own-{kind}") for kind in ("plain", "timed", "window", "session", "versions")
        )
        self.context.schedule(50, "stream", self.tick)
        self.context.schedule(70, "wall", self.tick)

    def process(self, record: Record[str, int]) -> None:
        if record.key is None or record.value is None:
            return
        key, time = record.key, record.timestamp
        self.plain.put(key, (self.plain.get(key) or 0) + 1)
        self.timed.put(key, ValueAndTimestamp(record.value, time))
        self.window.put(key, record.value, time)
        self.session.put(Windowed(key, time, time + 5), record.value)
        self.versions.put(key, record.value, time)
        matches = len(self.window.fetch(key, time - 20, time)) + len(self.session.find_sessions(key, time - 20, time))
        self.context.forward(record.with_value(100 * self.plain.get(key) + matches))

    def tick(self, now: int) -> None:
        for key, count in self.plain.all():
            self.context.forward(Record(key, -count, now))


def everything() -> App:
    """Reads ``left``, ``right``, ``rows`` and ``small``; its outputs are o1, o2 …"""
    app = App("everything")
    left, right = app.stream("left", value=int), app.stream("right", value=int)
    rows = app.table("rows", value=int, store=Materialized("rows", history=100))
    small = app.global_table("small", value=int, store="small")
    grouped = left.group_by_key()
    latest = right.to_table(store="latest")

    def pair(a: Any, b: Any) -> list[Any]:
        return [a, b]

    app.add_store("own-plain", value=int)
    app.add_store("own-timed", "timestamped", value=int)
    app.add_store("own-window", "window", value=int, retention=100, window_size=5)
    app.add_store("own-session", "session", value=int, retention=100)
    app.add_store("own-versions", "versioned", value=int, retention=100)
    own = [f"own-{kind}" for kind in ("plain", "timed", "window", "session", "versions")]
    windows = grouped.windowed_by(tumbling(20, grace=10)).count(store="tumbling")
    streams: list[Stream[Any, Any]] = [
        left.outer_join(right, pair, join_window(15, grace=5)),
        left.left_join(rows, pair, grace=10),
        left.left_join(small, pair),
        left.deduplicate(7),
        left.process(Remember, *own, key=str, value=int),
        right.repartition(name="again").merge(left),
    ]
    tables: list[Table[Any, Any]] = [
        grouped.count(store="counts"),
        windows.suppress(until_window_closes()),
        grouped.windowed_by(hopping(20, 10), emit="close").count(store="hopping"),
        grouped.windowed_by(sliding(10, grace=5)).count(store="sliding"),
        grouped.windowed_by(session(10, grace=5), emit="close").count(store="sessions"),
        grouped.cogroup(lambda v, agg: agg + v).cogroup(right.group_by_key(), lambda v, agg: agg - v)
        .aggregate(lambda: 0, value=int, store="cogrouped"),
        latest.suppress(until_time_limit(25, max_records=3)),
        latest.outer_join(rows, pair, store="joined"),
        latest.left_join(rows, pair, on=lambda v: "abcd"[v % 4], store="foreign"),
        latest.group_by(lambda v: (v % 3, v), key=int, value=int)
        .reduce(lambda a, v: a + v, lambda a, v: a - v, store="regrouped"),
        left.to_table(ttl=30, store="expiring"),
    ]  # fmt: skip
    for number, stream in enumerate([*streams, *(table.to_stream() for table in tables)], start=1):
        stream.to(f"o{number}")
    return app


def records(seed: int, count: int, *, ordered: bool = False) -> list[tuple[str, str | None, int | None, int]]:
    """Random records: (topic, key, value, timestamp).

    Some have no key or value, some are out of order, and some change the global table; not so if ``ordered``.
    """
    dice = random.Random(seed)
    result = []
    for n in range(count):
        time = 4 * n + (0 if ordered else dice.choice([0, 0, 0, 1, -10, -40]))
        key = dice.choice(["a", "b", "c", "d", "a", None] if not ordered else ["a", "b", "c", "d"])
        value = None if dice.random() < 0.1 else dice.randint(0, 20)
        topics = ["left", "left", "right", "rows", *([] if ordered else ["small"])]
        result.append((dice.choice(topics), key, value, max(0, time)))
    return result


def outputs(driver: TestDriver) -> dict[str, list[Record[Any, Any]]]:
    """Returns all output records by topic, without internal topics."""
    return {
        topic: driver.output(topic).read_all()
        for topic in sorted(driver.produced_topics)
        if not topic.endswith("-repartition")
    }


STORES = [
    *("counts", "tumbling", "hopping", "sliding", "cogrouped"),
    *("joined", "foreign", "regrouped", "expiring", "latest", "small"),
    *("own-plain", "own-timed", "own-window"),
]


def stores(driver: TestDriver) -> dict[str, list[Any]]:
    """Returns the contents of the stores that can list all their rows."""
    return {name: list(driver.store(name, timestamped=True).all()) for name in STORES}
