"""The verifier: computes the expected results of the application of `smoke` in plain Python, from its input alone.

It reads output topics from the log and stores from the views, as a user does, and shares no code with the engine. A
task takes its records in the documented order: by the running maximum of the partition's timestamps, then by topic,
then by partition, then by offset. Behind exchanges, it takes them in the order of the input records they come from.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.fault import smoke
from tests.fault.smoke import GAP, GLOBAL, GRACE, HOP, JOIN, KEYS, PARTITIONS, SLIDING, TICK, TUMBLING, Given

from millstream.core.partitioning import partition_for
from millstream.log import Log, open_log

Sequences = dict[str, list[Any]]
"""The values of each key, in order."""

Read = Callable[[], dict[str, Sequences]]
"""Reads all topics."""


class Findings(NamedTuple):
    """Errors in an output. Each finding names the topic or store, the key and the actual value."""

    lost: list[str]
    duplicated: list[str]
    reordered: list[str]
    wrong: list[str]

    def __bool__(self) -> bool:
        return any(self)

    def __str__(self) -> str:
        shown = (f"{kind}: {len(errors)}, {errors[:5]}" for kind, errors in self._asdict().items() if errors)
        return "; ".join(shown) or "nothing lost, duplicated, reordered or wrong"


def verify(directory: Path, seed: int, per_key: int = smoke.PER_KEY, *, read: Read | None = None) -> Findings:
    """Compares all output topics and views with the model. `read` reads the topics, by default from the log."""
    findings = Findings([], [], [], [])
    expected = Expected(smoke.inputs(seed, per_key))
    written = (read or partial(read_log, directory))()
    for topic, wanted in expected.sequences().items():
        for key in wanted.keys() | written[topic].keys():
            _compare(findings, f"{topic} {key}", wanted.get(key, []), written[topic].get(key, []))
    for topic, bags in expected.bags().items():
        for key in bags.keys() | written[topic].keys():
            _compare_bags(findings, f"{topic} {key}", bags.get(key, []), written[topic].get(key, []))
    for topic, finals in expected.finals().items():
        _compare_finals(findings, topic, finals, written[topic])
    tables = expected.tables()
    views = read_views(directory, tables)
    for store, table in tables.items():
        for key in table.keys() | views[store].keys():
            if table.get(key) != views[store].get(key):
                findings.wrong.append(f"store {store} {key}: {views[store].get(key)!r}, not {table.get(key)!r}")
    return findings


def read_log(directory: Path) -> dict[str, Sequences]:
    """The values of each key of all topics of the embedded log."""
    with open_log(directory, create=False) as log:
        return {topic.name: sequences(log, topic.name) for topic in log.topics() if not topic.internal}


def sequences(log: Log, topic: str) -> Sequences:
    """The values of each key of a topic, in order of offset."""
    values: Sequences = defaultdict(list)
    for partition, end in enumerate(log.ends([topic])[topic]):
        table = log.read(topic, partition, 0, end)
        offsets = table["offset"].to_pylist()
        assert offsets == list(range(end)), f"{topic}: the offsets of partition {partition} have gaps"
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
            values[key.decode()].append(None if value is None else json.loads(value))
    return dict(values)


def read_views(directory: Path, stores: Iterable[str]) -> dict[str, dict[str, Any]]:
    """All rows of stores, from their views."""
    app = smoke.build(directory)
    return {name: dict(app.store(name).all()) for name in stores}


def _compare(findings: Findings, where: str, expected: list[Any], actual: list[Any]) -> None:
    if expected == actual:
        return
    if not _compare_bags(findings, where, expected, actual):
        return
    place = next(n for n, (a, b) in enumerate(zip(expected, actual, strict=True)) if a != b)
    findings.reordered.append(f"{where}: at {place} {actual[place]!r}, not {expected[place]!r}")


def _compare_bags(findings: Findings, where: str, expected: list[Any], actual: list[Any]) -> bool:
    """Compares values without their order; returns whether they are equal."""
    before, now = (Counter(json.dumps(value) for value in values) for values in (expected, actual))
    findings.lost.extend(f"{where}: {value}" for value in before - now)
    for value in now - before:
        (findings.duplicated if value in before else findings.wrong).append(f"{where}: {value}")
    return before == now


def _compare_finals(findings: Findings, topic: str, expected: dict[str, Any], actual: Sequences) -> None:
    for key in expected.keys() | actual.keys():
        values = actual.get(key, [])
        if not values:
            findings.lost.append(f"{topic} {key}")
        elif values[-1] != expected.get(key):
            findings.wrong.append(f"{topic} {key}: {values[-1]!r}, not {expected.get(key)!r}")


# ----- the model ---------------------------------------------------------------------------------------------------


class Expected:
    """The expected results.

    Attributes:
        given: For each task, its records in the order in which it takes them: (topic, record).
    """

    def __init__(self, inputs: dict[str, list[Given]]) -> None:
        self.given = [
            [(topic, record) for topic, own, record in _ordered(inputs, ("left", "right", "rows")) if own == partition]
            for partition in range(PARTITIONS)
        ]
        self.third = list(_behind_two_exchanges(inputs))
        self.left: dict[str, list[Given]] = defaultdict(list)
        self.by_key: dict[str, list[tuple[str, Given]]] = defaultdict(list)
        for topic, record in (item for task in self.given for item in task):
            self.by_key[record.key].append((topic, record))
            if topic == "left":
                self.left[record.key].append(record)
        self.small = {record.key: record.value for record in smoke.small()}

    def values(self, key: str) -> list[int]:
        return [record.value for record in self.left[key] if record.value is not None]

    def sequences(self) -> dict[str, Sequences]:
        """The values of each key in order, by topic."""
        per_key: dict[str, Callable[[str], Iterable[Any]]] = {
            "even": lambda key: (v for v in self.values(key) if v % 2 == 0),
            "odd": lambda key: (v for v in self.values(key) if v % 2),
            "merged": lambda key: (v if v % 2 else -v for v in self.values(key)),
            "counts-out": lambda key: range(1, len(self.left[key]) + 1),
            "sums-out": lambda key: _running(self.values(key), lambda a, b: a + b),
            "digests-out": lambda key: _running([0, *self.values(key)], lambda agg, v: smoke.digest(v, agg), skip=1),
            "with-small": lambda key: ([v, self.small.get(f"v{v % 9}")] for v in self.values(key)),
            "with-row": self._with_row,
            "joined-out": self._joined,
            "cogrouped-out": self._cogrouped,
            "fresh": self._fresh,
        }
        topics = {topic: {key: list(make(key)) for key in self.by_key} for topic, make in per_key.items()}
        topics = {topic: {key: values for key, values in by_key.items() if values} for topic, by_key in topics.items()}
        topics["by-value-out"] = {key: list(range(1, count + 1)) for key, count in self._by_value().items()}
        topics["second-out"] = {key: list(range(1, count + 1)) for key, count in self._groups().items()}
        topics["third-out"] = self._third()
        topics["told"] = self._told()
        topics["tumbling-out"] = {key: list(range(1, count + 1)) for key, count in self._windows(TUMBLING).items()}
        for topic, closed in self._closed().items():
            topics[topic] = {key: [count] for key, count in closed.items()}
        return topics

    def bags(self) -> dict[str, Sequences]:
        """The values of each key in any order, by topic."""
        sides = [[(topic == "right", record) for topic, record in task if topic != "rows"] for task in self.given]
        third: list[list[tuple[bool, Given]]] = [[] for _ in range(PARTITIONS)]
        for topic, record in self.third:
            third[partition_for(record.key.encode(), PARTITIONS)].append((topic != "beside", record))
        return {"pairs": _outer_join(sides), "third-pairs": _outer_join(third)}

    def finals(self) -> dict[str, dict[str, Any]]:
        """The last value of each key, by topic."""
        tables = self.tables()
        finals = {f"{store}-out": tables[store] for store in ("foreign", "regrouped")}
        return {**finals, "sliding-out": self._sliding()}

    def tables(self) -> dict[str, dict[str, Any]]:
        """The rows of each store."""
        last = {topic: {key: values[-1] for key, values in sequences.items()} for topic, sequences in self._tables_of()}
        rows = {key: row for key in KEYS if (row := self._last("rows", key)) is not None}
        latest = {key: value for key in self.left if (value := self._last("right", key)) is not None}
        groups: Counter[str] = Counter()
        for key in self.left:
            groups[smoke.group_of(key)] += len(self.left[key])
        return {
            **last,
            "rows": rows,
            "latest": latest,
            GLOBAL: self.small,
            "joined": {key: [value, rows[key]] for key, value in latest.items() if key in rows},
            "foreign": {key: [value, rows.get(KEYS[value % len(KEYS)])] for key, value in latest.items()},
            "regrouped": dict(groups),
            "totals": {key: len(records) for key, records in self.left.items()},
        }

    def _tables_of(self) -> Iterator[tuple[str, Sequences]]:
        topics = self.sequences()
        for store in ("counts", "sums", "digests", "cogrouped", "by-value", "second", "third"):
            yield store, topics[f"{store}-out"]

    def _last(self, topic: str, key: str) -> Any:
        return next((record.value for name, record in reversed(self.by_key[key]) if name == topic), None)

    # ----- joins -----------------------------------------------------------------------------------------------

    def _with_row(self, key: str) -> Iterator[Any]:
        row = None
        for topic, record in self.by_key[key]:
            if topic == "rows":
                row = record.value
            elif topic == "left":
                yield [record.value, row]

    def _joined(self, key: str) -> Iterator[Any]:
        row = value = None
        for topic, record in self.by_key[key]:
            if topic == "rows":
                row = record.value
                if value is not None:
                    yield None if row is None else [value, row]
            elif topic == "right":
                value = record.value
                if row is not None:
                    yield [value, row]

    def _cogrouped(self, key: str) -> Iterator[Any]:
        state = 0
        for topic, record in self.by_key[key]:
            if topic != "rows" and record.value is not None:
                state = smoke.digest(record.value if topic == "left" else -record.value, state)
                yield state

    def _third(self) -> Sequences:
        digests: Sequences = defaultdict(list)
        for topic, record in self.third:
            assert record.value is not None
            before = digests[record.key][-1] if digests[record.key] else 0
            digests[record.key].append(smoke.digest(-record.value if topic == "beside" else record.value, before))
        return dict(digests)

    # ----- deduplication and processors ------------------------------------------------------------------------

    def _fresh(self, key: str) -> list[Any]:
        """The first of several equal records within the interval. The store expires rows by the task's stream time."""
        task = self.given[partition_for(key.encode(), PARTITIONS)]
        seen: dict[int, list[int]] = defaultdict(list)
        now, fresh = 0, []
        for topic, record in task:
            if topic != "left" or record.value is None:
                continue
            if record.key == key:
                oldest = max(record.timestamp - smoke.DEDUPLICATE, now - 2 * smoke.DEDUPLICATE)
                near = seen[record.value % 3]
                if not any(oldest <= time <= record.timestamp + smoke.DEDUPLICATE for time in near):
                    fresh.append(record.value)
            now = max(now, record.timestamp)
            if record.key == key and record.timestamp > now - 2 * smoke.DEDUPLICATE - 1:
                seen[record.value % 3].append(record.timestamp)
        return fresh

    def _told(self) -> Sequences:
        """The counts at every interval of stream time, beginning with the first record."""
        reported: Sequences = defaultdict(list)
        for task in self.given:
            counts: Counter[str] = Counter()
            now, due = -1, 0
            for topic, record in task:
                if topic != "left":
                    continue
                counts[record.key] += 1
                now = max(now, record.timestamp)
                if now >= due:
                    for key, count in counts.items():
                        reported[key].append([now, count])
                    due = (now // TICK + 1) * TICK
        return dict(reported)

    def _by_value(self) -> Counter[str]:
        return Counter(f"g{value % 5}" for key in self.left for value in self.values(key))

    def _groups(self) -> Counter[str]:
        return Counter(smoke.group_of(key) for key in self.left for _ in self.left[key])

    # ----- windows ---------------------------------------------------------------------------------------------

    def _windows(self, advance: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for key, records in self.left.items():
            for record in records:
                start = record.timestamp // advance * advance
                while start > record.timestamp - TUMBLING:
                    counts[f"{key} {start} {start + TUMBLING}"] += 1
                    start -= advance
        return counts

    def _closed(self) -> dict[str, dict[str, int]]:
        """The closed windows: all but those of the last records."""
        topics = {
            "closed-out": self._windows(TUMBLING),
            "hops-out": self._windows(HOP),
            "sessions-out": self._sessions(),
        }
        return {
            topic: {window: count for window, count in counts.items() if window.split()[0] in KEYS}
            for topic, counts in topics.items()
        }

    def _sessions(self) -> Counter[str]:
        sessions: Counter[str] = Counter()
        for key, records in self.left.items():
            times = sorted(record.timestamp for record in records)
            start = 0
            for place, time in enumerate(times):
                if place + 1 == len(times) or times[place + 1] - time > GAP:
                    sessions[f"{key} {times[start]} {time}"] = place + 1 - start
                    start = place + 1
        return sessions

    def _sliding(self) -> dict[str, int]:
        """A window ends at each record, and one begins just after it, unless it is empty."""
        windows: dict[str, int] = {}
        for key, records in self.left.items():
            times = sorted(record.timestamp for record in records)
            for start in {start for time in times for start in (time - SLIDING, time + 1)}:
                end = start + SLIDING
                count = bisect.bisect_right(times, end) - bisect.bisect_left(times, start)
                if count:
                    windows[f"{key} {start} {end}"] = count
        return windows


def _ordered(inputs: dict[str, list[Given]], topics: Iterable[str]) -> list[tuple[str, int, Given]]:
    """Topic, partition and record of all records of topics, in the order in which they are taken."""
    placed: list[tuple[int, str, int, int, Given]] = []
    for topic in topics:
        latest = [0] * PARTITIONS
        for record in inputs[topic]:
            partition = partition_for(record.key.encode(), PARTITIONS)
            latest[partition] = max(latest[partition], record.timestamp)
            placed.append((latest[partition], topic, partition, len(placed), record))
    return [(topic, partition, record) for _latest, topic, partition, _place, record in sorted(placed)]


def _behind_two_exchanges(inputs: dict[str, list[Given]]) -> Iterator[tuple[str, Given]]:
    """The records of ``beside``, and those that come from ``left`` through two counts and changes of key.

    A count has the greatest timestamp of the records it counts.
    """
    counts: Counter[str] = Counter()
    times: dict[str, int] = defaultdict(int)
    for topic, _partition, record in _ordered(inputs, ("left", "beside")):
        if topic == "beside":
            yield topic, record
            continue
        group = smoke.group_of(record.key)
        counts[group] += 1
        times[group] = max(times[group], record.timestamp)
        yield topic, Given(*smoke.third_of(group, counts[group]), times[group])


def _outer_join(tasks: list[list[tuple[bool, Given]]]) -> Sequences:
    """Joins records within the window; an unmatched record is emitted at once if late, else at window close.

    Args:
        tasks: The records that each task takes, each with whether it is of the right side.
    """
    pairs: Sequences = defaultdict(list)
    for task in tasks:
        now = 0
        seen: dict[tuple[str, bool], list[Given]] = defaultdict(list)
        alone: set[tuple[bool, Given]] = set()
        for side, record in task:
            now = max(now, record.timestamp)
            near = [o for o in seen[record.key, not side] if abs(o.timestamp - record.timestamp) <= JOIN]
            pairs[record.key] += [_pair(side, record.value, other.value) for other in near]
            alone -= {(not side, other) for other in near}
            seen[record.key, side].append(record)
            if not near and record.timestamp + JOIN < now:
                pairs[record.key].append(_pair(side, record.value, None))
            elif not near:
                alone.add((side, record))
        for side, record in alone:
            if record.timestamp + JOIN + GRACE < now:  # otherwise nothing closes the window
                pairs[record.key].append(_pair(side, record.value, None))
    return dict(pairs)


def _pair(side: bool, own: Any, other: Any) -> list[Any]:
    return [other, own] if side else [own, other]


def _running(values: list[int], function: Callable[[int, int], int], skip: int = 0) -> list[int]:
    results: list[int] = []
    for value in values:
        results.append(function(results[-1], value) if results else value)
    return results[skip:]
