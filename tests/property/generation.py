"""Random topologies, inputs and runs, each from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from tests.property.topologies import FOREVER, Builder, Step

from millstream import App
from millstream.core.partitioning import partition_for

MOST_EXCHANGES = 3
CRASHES = ("in-process.after-offsets", "in-process.after-state", "in-process.after-publish")


class Input(NamedTuple):
    """A record of an input topic."""

    topic: str
    partition: int
    key: str | None
    value: str | None
    timestamp: int


class Segment(NamedTuple):
    """A run of the application between two starts.

    Attributes:
        sizes: The greatest number of records of each batch.
        cold: Whether all tasks are built anew for each batch.
        crash: The failpoint in the last batch at which the run ends; None: it ends after the batch.
    """

    sizes: tuple[int, ...]
    cold: bool
    crash: str | None


@dataclass(frozen=True)
class Member:
    """A topology with its input topics, by number of partitions, and their records in the order of the log."""

    steps: tuple[Step, ...]
    partitions: dict[str, int]
    records: tuple[Input, ...]

    def build(self, app: App, prefix: str = "") -> Builder:
        """Adds the topology to an application, with a prefix in all its names."""
        draft = Builder(App("draft"), prefix)
        builder = Builder(app, prefix, draft.add_all(self.steps).cycles())
        builder.add_all(self.steps).finish()
        return builder


@dataclass(frozen=True)
class Case:
    """An application of some topologies, and how it is run. After the segments it runs to its end."""

    members: tuple[Member, ...]
    tasks: int
    segments: tuple[Segment, ...]


def generate(seed: int, *, members: int) -> Case:
    """Returns the case of a seed."""
    rng = random.Random(seed)
    made = tuple(generate_member(rng) for _ in range(members))
    total = max(len(member.records) for member in made) * members
    return Case(made, rng.choice([1, 1, 2, 4, 8]), tuple(segments(rng, total)))


def generate_member(rng: random.Random) -> Member:
    """Returns a random topology with random input."""
    builder, steps = None, []
    while builder is None or not builder.exchanges:
        steps = topology(rng)
        builder = Member(tuple(steps), {}, ()).build(App("generated"))
    partitions = {topic: rng.choice([1, 2, 4]) for topic in builder.topics}
    return Member(tuple(steps), partitions, tuple(inputs(rng, partitions)))


def topology(rng: random.Random) -> list[Step]:
    """Returns the steps of a random topology."""
    if rng.random() < 0.6:
        steps = crossing(rng)
    else:
        count = rng.choice([1, 2, 2, 3, 3])
        steps = [(rng.choice(["stream", "stream", "table"]), f"in{n}") for n in range(count)]
    for _ in range(rng.randint(1, 9)):
        builder = Builder(App("generated")).add_all(steps)
        added = random_step(rng, builder)
        if added is not None:
            builder.add(added)
            steps += [added] if builder.exchanges <= MOST_EXCHANGES else []
    return steps


def crossing(rng: random.Random) -> list[Step]:
    """Returns two streams that meet after different numbers of exchanges: the case in which order is easily lost."""
    steps: list[Step] = [("stream", "in0"), ("stream", "in1")]
    ends = [0, 1]
    exchanges = rng.choice([(1, 0), (0, 1), (2, 0), (0, 2), (2, 1), (1, 2)])
    for side, count in enumerate(exchanges):
        for _ in range(count):
            steps.append(("process", ends[side], "chain"))  # a task, so that the exchange behind it is a topic
            steps.append(("select_key", len(steps) - 1, rng.choice([2, 3]), False))
            ends[side] = len(steps) - 1
    how = rng.choice(["join", "left_join", "outer_join"])
    spans = rng.choice([0, 10, 30]), rng.choice([0, 10, 30]), rng.choice([0, 5, 20, FOREVER])
    last = len(steps)
    meetings: list[list[Step]] = [
        [("stream_join", *ends, how, *spans)],
        [("to_table", ends[1]), ("stream_table", ends[0], last, how if how != "outer_join" else "join")],
        [("to_table", ends[0]), ("to_table", ends[1]), ("table_join", last, last + 1, how)],
        [("merge", *ends), ("process", last, "chain")],
        [("merge", *ends), ("windowed", last, "tumbling", 5, rng.choice(["update", "close"]))],
    ]
    return steps + rng.choice(meetings)


def random_step(rng: random.Random, builder: Builder) -> Step | None:
    """Returns a random operator on the nodes, mostly on those without a consumer; None if it does not fit."""

    def pick(kind: str) -> int | None:
        numbers = [number for number, node in enumerate(builder.nodes) if node.kind == kind]
        fresh = [number for number in numbers if number not in builder.used]
        return rng.choice(fresh if fresh and rng.random() < 0.8 else numbers) if numbers else None

    name = rng.choices(list(OPERATORS), [3 if name in FREQUENT else 1 for name in OPERATORS])[0]
    kinds = OPERATORS[name]
    sources = [pick(kind) for kind in kinds]
    if None in sources or (len(sources) == 2 and sources[0] == sources[1]):
        return None
    return _with_options(rng, name, sources)


def _with_options(rng: random.Random, name: str, sources: list[int | None]) -> Step:
    groups = rng.choice([2, 3, 5])
    grace = rng.choice([0, 5, 20, FOREVER])
    emit = rng.choice(["update", "update", "close"])
    how = rng.choice(["join", "left_join", "outer_join"])
    options: dict[str, tuple] = {
        "filter:table": (4,),
        "filter:stream": (4,),
        "select_key": (groups, rng.random() < 0.3),
        "flat_map": (groups,),
        "with_timestamp": (rng.choice([40, 300]),),
        "split": (2,),
        "process:chain": ("chain",),
        "process:ticker": ("ticker",),
        "aggregate:sum": ("sum",),
        "aggregate:digest": ("digest",),
        "windowed": (
            rng.choice(["tumbling", "hopping", "sliding", "session"]),
            grace if emit == "update" else min(grace, 20),
            emit,
        ),
        "stream_join": (how, rng.choice([0, 10, 30]), rng.choice([0, 10, 30]), grace),
        "stream_table": (how if how != "outer_join" else "join",),
        "table_join": (how,),
        "foreign_key": (how if how != "outer_join" else "join", groups),
        "regroup": (groups,),
        "suppress:table": (rng.choice([0, 10, 40]),),
        "suppress:windowed": (0,),
        "windows_to_stream": (rng.random() < 0.4,),
    }
    return (name.partition(":")[0], *sources, *options.get(name, ()))


OPERATORS: dict[str, tuple[str, ...]] = {
    "map_values:stream": ("stream",),
    "map_values:table": ("table",),
    "filter:stream": ("stream",),
    "filter:table": ("table",),
    "select_key": ("stream",),
    "flat_map": ("stream",),
    "with_timestamp": ("stream",),
    "merge": ("stream", "stream"),
    "split": ("stream",),
    "repartition": ("stream",),
    "process:chain": ("stream",),
    "process:ticker": ("stream",),
    "aggregate:sum": ("stream",),
    "aggregate:digest": ("stream",),
    "windowed": ("stream",),
    "stream_join": ("stream", "stream"),
    "stream_table": ("stream", "table"),
    "to_table": ("stream",),
    "to_stream": ("table",),
    "table_join": ("table", "table"),
    "foreign_key": ("table", "table"),
    "regroup": ("table",),
    "suppress:table": ("table",),
    "suppress:windowed": ("windowed",),
    "windows_to_stream": ("windowed",),
    "regroup_windows": ("windowed",),
}
"""The kinds of the nodes that each operator takes; the part behind a colon tells variants apart."""

FREQUENT = {
    "foreign_key",
    "merge",
    "select_key",
    "stream_join",
    "stream_table",
    "table_join",
    "windowed",
    "windows_to_stream",
}
"""Operators that need other operators before or behind them, to be of interest."""


def inputs(rng: random.Random, partitions: dict[str, int]) -> list[Input]:
    """Returns random records: times out of order and ties, topics ahead of others, null keys and values."""
    records = []
    keys = [f"k{n}" for n in range(rng.choice([1, 3, 6]))] + ["g0", "g1"]
    late, nulls = rng.choice([0, 3, 40]), rng.random() < 0.5
    for topic, count in partitions.items():
        time, step = rng.choice([0, 0, 100]), rng.choice([0, 2, 6, 15])
        for _ in range(rng.randint(0, 25)):
            time += rng.randint(0, step)
            key = None if nulls and rng.random() < 0.1 else rng.choice(keys)
            value = None if nulls and rng.random() < 0.1 else f"{rng.choice('abcdefgh')}{rng.randint(0, 9)}"
            partition = rng.randrange(count) if key is None else partition_for(key.encode(), count)
            records.append(Input(topic, partition, key, value, max(0, time - rng.randint(0, late))))
    return records


def segments(rng: random.Random, total: int) -> list[Segment]:
    """Returns random runs."""
    most = max(2, total // rng.choice([1, 2, 5, 15, 60]))
    return [
        Segment(
            tuple(rng.randint(1, most) for _ in range(rng.randint(1, 8))),
            rng.random() < 0.3,
            rng.choice(CRASHES) if rng.random() < 0.4 else None,
        )
        for _ in range(rng.randint(0, 3))
    ] + [Segment((rng.randint(1 + most // 2, most),), rng.random() < 0.2, None)]
