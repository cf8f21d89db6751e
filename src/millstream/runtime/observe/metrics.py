"""The metrics of a running application."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.errors import LogError
from millstream.plan.contracts import counted, quarantine_topics
from millstream.plan.stateless import Repartition
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.execution import Progress
from millstream.runtime.messages import StreamTime, TaskResult
from millstream.runtime.observe.histograms import Histogram
from millstream.runtime.observe.latencies import Latencies
from millstream.runtime.observe.node_counts import NodeCounts
from millstream.runtime.observe.processes import ProcessMemory
from millstream.state.paged import StoreSize

if TYPE_CHECKING:
    from millstream.runtime.start.prepared_application import PreparedApplication

_WINDOW = 10.0

_NOT_MISSED = {"duplicate", "stale answer"}
"""Reasons for which records are dropped as intended."""

_ERRORS = {"deserialization error", "processing error", "production error"}
"""Reasons for which the source record is written to the dead-letter topic, if there is one."""


class Metrics:
    """Counts publications. It may be read from any thread."""

    def __init__(self, application: PreparedApplication, clock: Clock = SYSTEM_CLOCK) -> None:
        self.connectors: Callable[[], dict[str, Any]] = dict
        """Returns the states and metrics of the connectors."""
        self.has_connectors_only = not application.program.topology.plan.nodes
        """Whether the application has no topology."""
        self._application = application
        self._clock = clock
        self._lock = threading.Lock()
        self._read: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._changed: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._tasks: dict[int, tuple[dict[str, float], dict[str, StoreSize]]] = {}
        self._phases: dict[str, float] = {}
        self._recent: deque[tuple[float, int, int]] = deque()
        self._restores = set(application.program.restores)
        self._lags: dict[str, list[int]] = {}
        self._times: dict[tuple[int, int], int] = {}
        self._checkpoints = Histogram()
        self._checkpoint_bytes = 0
        self._processes = ProcessMemory()
        topology, config = application.program.topology, application.program.config
        self._internal = {topology.topic_of(node) for node in topology.plan.of_type(Repartition)}
        changelogs = (application.program.changelog_of(spec) for spec in topology.stores)
        self._own_topics = self._internal | {topic for topic in changelogs if topic is not None}
        self._dead_letters: str | None = config["errors.dead.letter.queue.topic.name"]
        self._letters = quarantine_topics(topology.plan, config) | {self._dead_letters or ""}
        sinks = [node for node in topology.plan.nodes if node.role == "sink"]
        fixed = {topic for node in sinks for topic in node.topics} if all(node.topics for node in sinks) else set()
        ignored = (self._own_topics if sinks else self._internal) | self._letters
        self._latencies = Latencies(fixed, ignored, has_sinks=bool(sinks))
        self._nodes = NodeCounts(topology, self._letters)
        self.batches = 0
        self.last_batch = -1
        self.last_seconds = 0.0
        self.last_work = 0.0
        self.last_bytes = 0
        self._last_end = self._clock.monotonic()
        self.last_records = 0
        self._waiting: dict[int, int] = {}
        self.unit = "batch" if application.mode == "micro_batch" else "commit"
        """The name of a publication: workers publish at intervals, not in batches."""
        self._restarts = 0
        self.restoring = ""
        """The progress of workers that restore their stores; empty if none does."""
        first = application.first.offsets
        positions = {(topic, part): offset for topic, row in first.items() for part, offset in enumerate(row)}
        positions.update(application.committed_offsets())
        # Topics that are not read any more, and changelogs, which are read once, have no lag.
        topics = set(application.subscription.topics) - self._restores
        self._positions = {place: offset for place, offset in positions.items() if place[0] in topics}

    @property
    def restarts(self) -> int:
        """How often a part of the application, or all of it, was lost and started again."""
        return self._restarts

    def restarted(self) -> None:
        """Counts a restart."""
        with self._lock:
            self._restarts += 1
            self._processes.clear()

    def position(self, topic: str, partition: int) -> int:
        """The offset up to which a partition was read."""
        return self._positions.get((topic, partition), 0)

    def add(self, progress: Progress) -> None:
        """Counts a publication."""
        batch, results, seconds, commit, cores = progress
        if self.unit == "batch":
            self.measure(results)
        with self._lock:
            self.batches += 1
            self.last_batch = batch
            read = entered = left = 0
            for result in results:
                for topic, partition, begin, end in result.offsets:
                    if topic not in self._restores:
                        self._positions[topic, partition] = end
                    self._read[topic] += end - begin
                    read += end - begin
                    entered += 0 if topic in self._own_topics else end - begin
                for block in result.blocks:
                    self._written[block.topic] += block.count
                    left += 0 if block.topic in self._own_topics else block.count
                for drop in result.drops:
                    self._dropped[drop.operator, drop.reason] += drop.count
                for change in result.changes:
                    self._changed[change.store] += len(change.keys)
                self._changed.update(result.changed)
                self._taken.update(result.taken)
            tasks = {result.number: result for result in results if result.number is not None}
            self.last_records = read
            reading = _spread([result.figures.get("read", 0.0) for result in results], cores)
            engine = _spread([result.figures.get("engine", 0.0) for result in tasks.values()], cores)
            self._phases = {"spark": seconds, "read": reading, "engine": engine, "commit": commit}
            if self.unit == "commit":
                self._phases = {"process": seconds, "commit": commit}
            now = self._clock.monotonic()
            planned = max((r.figures["planned"] for r in results if "planned" in r.figures), default=math.inf)
            # A replayed batch was planned long ago.
            self.last_seconds = max(seconds + commit, min(now - self._last_end, self._clock.time_ms() / 1000 - planned))
            self.last_work = reading + engine + commit
            self.last_bytes = int(sum(result.figures.get("bytes", 0.0) for result in results))
            self._last_end = now
            self._add_latencies(results, seconds + commit, read)
            self._recent.append((now, entered, left))
            while self._recent and self._recent[0][0] < now - _WINDOW:
                self._recent.popleft()

    def _add_latencies(self, results: Sequence[TaskResult], seconds: float, read: int) -> None:
        whole = self.last_seconds if self.unit == "batch" else seconds
        latencies = [result.figures["latency"] for result in results if "latency" in result.figures]
        if self.unit == "batch" and read:
            latencies.append(whole)  # from the plan of the batch on
        committed = max((r.figures["committed"] for r in results if "committed" in r.figures), default=0.0)
        self._latencies.add(self._phases, whole, max(latencies, default=None))
        self._latencies.add_outputs(results, committed or self._clock.time_ms())

    def measure(self, results: Iterable[TaskResult]) -> None:
        """Notes the sizes of stores, the numbers of waiting records, stream times, checkpoints and memory.

        Results of batches contain them. Workers report them apart from publications.
        """
        with self._lock:
            now = self._clock.monotonic()
            seconds = size = 0.0
            for result in results:
                seconds = max(seconds, result.figures.get("checkpoint.seconds", 0.0))
                size += result.figures.get("checkpoint.bytes", 0.0)
                self._processes.note(result, now)
                for subtopology, partition, time in map(_fields, result.times):
                    place = subtopology, partition
                    self._times[place] = max(time, self._times.get(place, time))
                if result.number is not None:
                    self._waiting[result.number] = result.waiting
                    self._tasks[result.number] = (_state(result), result.stores)
            if size:
                self._checkpoints.add(seconds)
                self._checkpoint_bytes += int(size)

    @property
    def waiting(self) -> int:
        """The number of records that tasks hold back."""
        with self._lock:
            return sum(self._waiting.values())

    @property
    def unit_seconds(self) -> float:
        """Duration of the last batch; in real-time execution, of the last commit."""
        return self.last_seconds if self.unit == "batch" else self._phases.get("commit", 0.0)

    def rates(self) -> tuple[float, float]:
        """Records per second over the last seconds: read from and written to topics that are not the application's own.

        Its own topics are those of repartitions and changelogs.
        """
        with self._lock:
            now = self._clock.monotonic()
            recent = [entry for entry in self._recent if entry[0] >= now - _WINDOW]
            if not recent:
                return 0.0, 0.0
            span = max(1.0, now - recent[0][0])
            return sum(entry[1] for entry in recent) / span, sum(entry[2] for entry in recent) / span

    def lag(self) -> dict[str, int]:
        """Number of records that have not been read yet, by topic."""
        return {topic: sum(row) for topic, row in self.lags().items()}

    def lags(self) -> dict[str, list[int]]:
        """Number of records that have not been read yet, by topic and partition."""
        with self._lock:
            positions = dict(self._positions)
        try:
            ends = self._application.log.ends(sorted({topic for topic, _ in positions}))
        except LogError:  # the application has ended: the last lag
            return dict(self._lags)
        self._lags = {
            topic: [max(0, end - positions.get((topic, partition), 0)) for partition, end in enumerate(row)]
            for topic, row in ends.items()
        }
        return dict(self._lags)

    @property
    def state_bytes(self) -> float:
        """Size of the state."""
        with self._lock:
            return self._size(_sum(state for state, _stores in self._tasks.values()))

    def _size(self, state: Mapping[str, float]) -> float:
        stored = state.get("state.stored-bytes", 0.0) + state.get("state.log-weight", 0.0)
        if self.unit == "batch":
            return stored
        return max(stored, state.get("state.memory", 0.0))  # workers write pages seconds later

    @property
    def dropped(self) -> int:
        """Number of records dropped, without those that were dropped as intended, and those in quarantine."""
        with self._lock:
            return sum(
                count
                for (_, reason), count in self._dropped.items()
                if reason not in _NOT_MISSED and not _is_quarantined(reason)
            )

    @property
    def quarantined(self) -> int:
        """Number of records in quarantine."""
        with self._lock:
            return sum(count for (_, reason), count in self._dropped.items() if _is_quarantined(reason))

    def read(self) -> dict[str, Any]:
        """Returns all metrics."""
        lags = self.lags()
        rate_in, rate_out = self.rates()
        with self._lock:
            totals = dict(self._taken), dict(self._read), dict(self._written), dict(self._dropped)
        nodes = self._nodes.read(*totals)  # outside of the lock: a topology may have many operators
        with self._lock:
            changes = {name: {"changes": count} for name, count in self._changed.items()}
            state = _sum(state for state, _stores in self._tasks.values())
            stores = _by_store(stores for _state, stores in self._tasks.values())
            return {
                "batches": self.batches,
                "last_batch": self.last_batch,
                "last_batch_seconds": self.last_seconds,
                "records_per_second": {"in": rate_in, "out": rate_out},
                "records": {"in": self._outside(self._read), "out": self._outside(self._written)},
                "sources": {topic: {"read": self._read[topic], "lag": sum(row)} for topic, row in lags.items()},
                "lags": lags,
                "sinks": dict(self._written),
                "dropped": {f"{operator}: {reason}": count for (operator, reason), count in self._dropped.items()},
                "contracts": _by_contract(self._dropped),
                "dead_letters": self._by_cause(),
                "operators": _by_operator(self._dropped, self._taken),
                "nodes": nodes,
                "subtopologies": self._by_subtopology(),
                "stores": {
                    name: {**changes.get(name, {}), **stores.get(name, {})}
                    for name in sorted(changes.keys() | stores.keys())
                },
                "state_size": {name.removeprefix("state."): value for name, value in state.items()},
                "state_bytes": self._size(state),
                "stream_times": [[*place, time] for place, time in sorted(self._times.items())],
                "phases": dict(self._phases),
                "histograms": {**self._latencies.read(), "checkpoint": self._checkpoints.read()},
                "checkpoint_bytes": self._checkpoint_bytes,
                "memory": self._processes.read(self._clock.monotonic()),
                "waiting": sum(self._waiting.values()),
                "restarts": self.restarts,
                "restoring": self.restoring,
                "connectors": self.connectors(),
            }

    def _outside(self, counts: Mapping[str, int]) -> int:
        """The number of records of topics that are not the application's own."""
        return sum(count for topic, count in counts.items() if topic not in self._own_topics)

    def _by_cause(self) -> dict[str, dict[str, int]]:
        """The number of records written to dead-letter and quarantine topics, by operator and reason."""
        letters: dict[str, dict[str, int]] = {}
        for (operator, reason), count in self._dropped.items():
            if _is_quarantined(reason) or (self._dead_letters is not None and reason in _ERRORS):
                letters.setdefault(operator, {})[reason] = count
        return letters

    def _by_subtopology(self) -> dict[str, dict[str, int]]:
        parts = self._application.program.topology.parts
        return {str(part.index): {"taken": sum(self._taken[source.name] for source in part.sources)} for part in parts}


def _fields(time: StreamTime) -> tuple[int, int, int]:
    return time.subtopology, time.partition, time.time


def _state(result: TaskResult) -> dict[str, float]:
    return {name: value for name, value in result.figures.items() if name.startswith("state.")}


def _spread(seconds: list[float], cores: int) -> float:
    """Least duration of tasks of which so many run at once."""
    return max(max(seconds, default=0.0), sum(seconds) / cores)


def _sum(figures: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for task in figures:
        for name, value in task.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _by_store(tasks: Iterable[dict[str, StoreSize]]) -> dict[str, Counter[str]]:
    totals: dict[str, Counter[str]] = {}
    for stores in tasks:
        for name, (rows, memory, stored) in stores.items():
            totals.setdefault(name, Counter()).update({"rows": rows, "memory": memory, "stored-bytes": stored})
    return totals


def _is_quarantined(reason: str) -> bool:
    violation = counted(reason)
    return violation is not None and violation.is_quarantined


def _by_contract(dropped: Counter[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    contracts: dict[str, dict[str, Any]] = {}
    for (_operator, reason), count in dropped.items():
        violation = counted(reason)
        if violation is not None:
            figures = contracts.setdefault(violation.contract, {"dropped": 0, "quarantined": 0, "rules": {}})
            figures["quarantined" if violation.is_quarantined else "dropped"] += count
            reasons = figures["rules"].setdefault(violation.rule, {})
            reasons[violation.reason] = reasons.get(violation.reason, 0) + count
    return contracts


def _by_operator(dropped: Counter[tuple[str, str]], taken: Counter[str]) -> dict[str, dict[str, Any]]:
    operators: dict[str, dict[str, Any]] = {name: {"taken": count, "dropped": {}} for name, count in taken.items()}
    for (operator, reason), count in dropped.items():
        operators.setdefault(operator, {"dropped": {}})["dropped"][reason] = count
    return operators
