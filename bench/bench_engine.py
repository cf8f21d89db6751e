"""Compares the engine with a hand-written Python loop that does the same work, in one run.

    python bench/bench_engine.py [--records N] [--rounds N] [--json FILE]

Each loop calls the same user functions as the topology, keeps (value, timestamp) in a dict with a set of changed keys,
and appends (key, value, timestamp) tuples. Neither side uses serdes. Rounds alternate between the two, and
the best of each counts, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from millstream import App, tumbling
from millstream.engine import Task

Records = list[tuple[str, Any, int]]


def double(value: int) -> int:
    """A user's function."""
    return value * 2


def is_wanted(value: int) -> bool:
    """A user's function."""
    return value % 10 != 0


def increment(value: int) -> int:
    """A user's function."""
    return value + 1


def joiner(left: int, right: str) -> str:
    """A user's function."""
    return f"{left}{right}"


class Case:
    """A topology, the loop to compare it with, and the required ratio of their speeds."""

    name: str
    needed: float

    def __init__(self, records: Records) -> None:
        self.records = records
        self.entries = [(t, k, v, (), i, None) for i, (k, v, t) in enumerate(records)]

    def app(self) -> App:
        """The topology."""
        raise NotImplementedError

    def loop(self) -> list[Any]:
        """The hand-written loop."""
        raise NotImplementedError

    def prepare(self, task: Task) -> None:
        """Records to pass to the task before the clock starts."""

    def engine(self) -> Callable[[], list[Any]]:
        """A run of the engine, ready to start."""
        app = self.app()
        task = Task(app.topology(), app.config, raw=True)
        self.prepare(task)
        task.add_decoded("in", self.entries)

        def run() -> list[Any]:
            task.run()
            return task.take_outputs()

        return run


class MapFilterMap(Case):
    """A chain of stateless operators."""

    name, needed = "map-filter-map", 1 / 3

    def app(self) -> App:
        app = App("bench")
        stream = app.stream("in", key=str, value=int)
        stream.map_values(double).filter(is_wanted).map_values(increment).to("out", value=int)
        return app

    def loop(self) -> list[Any]:
        out = []
        for key, value, timestamp in self.records:
            value = double(value)  # noqa: PLW2901
            if is_wanted(value):
                out.append((key, increment(value), timestamp))
        return out


class KeyedCount(Case):
    """A count by key, every update written."""

    name, needed = "keyed count", 1 / 3

    def app(self) -> App:
        app = App("bench")
        app.stream("in", key=str, value=int).group_by_key().count(store="counts").to_stream().to("out")
        return app

    def loop(self) -> list[Any]:
        rows: dict[str, tuple[int, int]] = {}
        changed = set()
        out = []
        for key, _value, timestamp in self.records:
            row = rows.get(key)
            if row is None:
                row = (1, timestamp)
            else:
                row = (row[0] + 1, timestamp if timestamp > row[1] else row[1])  # noqa: FURB136
            rows[key] = row
            changed.add(key)
            out.append((key, row[0], row[1]))
        return out


class WindowedCount(Case):
    """A count by key and tumbling window, every update written."""

    name, needed = "windowed count", 1 / 4

    def app(self) -> App:
        app = App("bench")
        windows = app.stream("in", key=str, value=int).group_by_key().windowed_by(tumbling(1_000, grace=10_000))
        windows.count(store="counts").to_stream().to("out")
        return app

    def loop(self) -> list[Any]:
        rows: dict[tuple[str, int], tuple[int, int]] = {}
        changed = set()
        out = []
        for key, _value, timestamp in self.records:
            window = (key, timestamp - timestamp % 1_000)
            row = rows.get(window)
            if row is None:
                row = (1, timestamp)
            else:
                row = (row[0] + 1, timestamp if timestamp > row[1] else row[1])  # noqa: FURB136
            rows[window] = row
            changed.add(window)
            out.append((window, row[0], row[1]))
        return out


class StreamTableJoin(Case):
    """A stream joined with a table of all its keys."""

    name, needed = "stream-table join", 1 / 4

    def app(self) -> App:
        app = App("bench")
        table = app.table("names", key=str, value=str, store="names")
        app.stream("in", key=str, value=int).join(table, joiner).to("out", value=str)
        return app

    def prepare(self, task: Task) -> None:
        keys = sorted({key for key, _, _ in self.records})
        task.add_decoded("names", [(0, key, f"name of {key}", (), i, None) for i, key in enumerate(keys)])
        task.run()
        task.take_outputs()

    def loop(self) -> list[Any]:
        rows = {key: (f"name of {key}", 0) for key, _, _ in self.records}
        out = []
        started = time.perf_counter()
        for key, value, timestamp in self.records:
            row = rows.get(key)
            if row is not None:
                out.append((key, joiner(value, row[0]), timestamp))
        self.seconds = time.perf_counter() - started
        return out


def best(run: Callable[[], Any]) -> float:
    """Returns the seconds of a run."""
    gc.collect()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """Runs the loop and the engine of a case alternately."""
    if len(case.engine()()) != len(case.loop()):
        sys.exit(f"{case.name}: the engine and the loop do not give the same number of records")
    loop = engine = float("inf")
    for _ in range(rounds):
        taken = best(case.loop)
        loop = min(loop, getattr(case, "seconds", taken))
        engine = min(engine, best(case.engine()))
    count = len(case.records)
    return {
        "case": case.name,
        "loop records/s": round(count / loop),
        "engine records/s": round(count / engine),
        "part of the loop's speed": round(loop / engine, 2),
        "needed": round(case.needed, 2),
    }


def main() -> int:
    """Measures all cases and prints a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--keys", type=int, default=1_000)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--json", help="write the figures to this file too")
    arguments = options.parse_args()
    rng = random.Random(1)
    keys = [f"key-{n}" for n in range(arguments.keys)]
    records = [(rng.choice(keys), rng.randrange(1_000), n // 20) for n in range(arguments.records)]
    results = []
    print(f"{'':20}{'loop/s':>12}{'engine/s':>12}{'part':>8}{'needed':>8}")
    for kind in (MapFilterMap, KeyedCount, WindowedCount, StreamTableJoin):
        result = measure(kind(records), arguments.rounds)
        results.append(result)
        name, *figures = result.values()
        print(f"{name:20}{figures[0]:>12,}{figures[1]:>12,}{figures[2]:>8}{figures[3]:>8}", flush=True)
    if arguments.json:
        with pathlib.Path(arguments.json).open("w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
