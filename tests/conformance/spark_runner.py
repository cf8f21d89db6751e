"""Runs vectors on the runtime: many in one application, on Spark, or without it by the same planner, tasks and commit.

The topology of each vector is a separate part of the application: all its names have a prefix, so that vectors share
nothing but the query. The i-th inputs of all vectors are written at once, and the outputs are read when all records are
processed. Alternatively, all inputs are in the log before the application starts.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it can be loaded from any directory

from millstream import App, MillstreamError, Record
from millstream.log import open_log
from millstream.log.api import Append, Log
from millstream.log.blocks import Block, decode_headers, encode
from millstream.log.opening import log_location
from millstream.plan.stateless import Repartition, Sink
from millstream.runtime.in_process.batches import InProcessRun
from millstream.serde import Serde, serde_for
from millstream.views.database import ViewDatabase
from millstream.views.reader import open_view
from tests.conformance import expressions, interpreter, processors
from tests.conformance.interpreter import TYPES, UNCOUNTED, Topology, options_of, run_vector
from tests.conformance.shapes import dump_stores, show_record

Vector = dict[str, Any]
Backend = Literal["spark", "local"]
Mode = Literal["micro_batch", "real_time"]
_Serdes = tuple[Serde[Any], Serde[Any]]
"""The serdes of keys and values."""
_Steps = list[list[dict[str, Any]]]

_SIZES: dict[Backend, int] = {"spark": 150, "local": 16}
"""The number of vectors of an application. On Spark, the fixed costs of a batch and of a query are high."""
_LONGEST_WAIT = 300.0
_POLL = 0.05


def run_vectors(
    vectors: list[Vector],
    backend: Backend = "spark",
    *,
    mode: Mode = "micro_batch",
    workers: int | None = None,
    at_once: bool = False,
    cold: bool = False,
    seed: int | None = None,
    restart_every: int | None = None,
) -> list[dict[str, Any]]:
    """Runs vectors on the runtime, all vectors of one configuration in one application.

    A vector that fails would stop the others, so a vector that fails in the test driver runs in a separate application.

    Args:
        vectors: The vectors, without expected results.
        backend: Spark, or the execution in this process.
        mode: Micro-batches, or workers that read and publish by themselves.
        workers: The number of workers.
        at_once: Put all inputs into the log before the start; each vector then has one step with all outputs.
        cold: Locally: load all tasks for each batch from their stored state.
        seed: Locally: of the random size of batches, a few records of each topic.
        restart_every: In real-time mode: the number of steps after which the application stops and starts again.
            Every second start is without the local page stores.

    Returns:
        For each vector, a result as that of `run_vector`.
    """
    results: list[dict[str, Any]] = [{} for _ in vectors]

    def start(app: App) -> Host:
        if mode == "real_time" or backend == "spark":
            return _RunningHost(app, restart_every=restart_every)
        return _LocalHost(app, cold=cold, seed=seed)

    for numbers in _groups(vectors, _SIZES[backend]):
        directory = tempfile.mkdtemp(dir=_base())
        options: dict[str, Any] = {}
        if mode == "real_time":
            options = {"execution.mode": "real_time" if backend == "spark" else "local", "num.workers": workers}
            options["commit.interval.ms"] = 5
        group = _Group([vectors[number] for number in numbers], directory, options)
        for number, result in zip(numbers, group.run(start, at_once=at_once), strict=True):
            results[number] = result
        if backend == "local":
            shutil.rmtree(directory)
    return results


@functools.cache
def _base() -> str:
    """A directory that exists as long as the process: files of Spark are beside those of the first application."""
    base = tempfile.mkdtemp(prefix="vectors-")
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    return base


def _groups(vectors: list[Vector], size: int) -> list[list[int]]:
    """The numbers of the vectors of each application: with one configuration, and similar numbers of batches."""
    groups: dict[str, list[list[int]]] = {}
    batches = [(exchanges(vector) > 0, len(vector["inputs"])) for vector in vectors]
    for number in sorted(range(len(vectors)), key=batches.__getitem__):
        alone = f" {number}" if "error" in run_in_driver(vectors[number]) else ""
        applications = groups.setdefault(f"{sorted(options_of(vectors[number]).items())}{alone}", [[]])
        if len(applications[-1]) == size:
            applications.append([])
        applications[-1].append(number)
    return list(chain.from_iterable(groups.values()))


def run_in_driver(vector: Vector) -> dict[str, Any]:
    """The result of a vector in the test driver, cached."""
    return _run_in_driver(json.dumps(vector))


@functools.cache
def _run_in_driver(vector: str) -> dict[str, Any]:
    return run_vector(json.loads(vector))


def exchanges(vector: Vector) -> int:
    """The number of exchanges in the topology of a vector; 0 if it cannot be built."""
    try:
        return len(list(Topology(vector).build()[0].topology().plan.of_type(Repartition)))
    except MillstreamError:
        return 0


def is_eligible(vector: Vector) -> bool:
    """Whether the runtime can run a vector: it uses the real wall clock, and logs reject negative timestamps."""
    wall = any(node.get("clock") == "wall" for node in vector["topology"])
    return not wall and all(step.get("ts", 0) >= 0 for step in vector["inputs"])


def input_topics(vector: Vector) -> set[str]:
    """The topics that a vector reads."""
    return set(chain.from_iterable(_topics(node) for node in vector["topology"]))


def _topics(node: dict[str, Any]) -> list[str]:
    if node["op"] == "stream":
        return list(node["topics"])
    return [node["topic"]] if node["op"] in {"table", "global_table"} else []


# ----- vectors in one application ------------------------------------------------------------------------------------


class Host(Protocol):
    """Runs an application."""

    dropped: Counter[tuple[str, str]]
    """The number of dropped records, by operator and reason. It is complete when the host is closed."""

    def settle(self) -> None:
        """Returns when all records are processed; raises the error of the application if it fails."""

    def store(self, name: str, *, timestamped: bool = False) -> Any:
        """Opens a store."""

    def close(self) -> None:
        """Stops the application."""


class _Group:
    """Vectors that run in one application."""

    def __init__(self, vectors: list[Vector], directory: str, execution: dict[str, Any]) -> None:
        options = {"state.dir": directory, "status": "none", **execution, **options_of(vectors[0])}
        self._app = App("oracle", config=options)
        self._directory = directory
        self._vectors = vectors

    def run(self, start: Callable[[App], Host], *, at_once: bool) -> list[dict[str, Any]]:
        """Runs the vectors to their end, or to the first error."""
        steps: list[_Steps] = [[] for _ in self._vectors]
        step: int | str = "build"
        try:
            with open_log(self._directory) as log:
                members = [_Member(*pair, self._app) for pair in zip(self._vectors, steps, strict=True)]
                for topic in chain.from_iterable(member.serdes for member in members):
                    log.create_topic(topic)
                rounds = range(max(len(member.inputs) for member in members))
                if at_once:
                    _feed(log, members, rounds)
                with contextlib.closing(start(self._app)) as host:
                    for step in rounds[:1] if at_once else rounds:
                        _feed(log, members, [] if at_once else [step])
                        host.settle()
                        _take(log, members, step)
                    stores = [member.dump(host) for member in members]
                return [member.result(own, host.dropped) for member, own in zip(members, stores, strict=True)]
        except MillstreamError as error:
            return [{"error": {"step": step, "message": str(error)}, "outputs": outputs} for outputs in steps]


def _feed(log: Log, members: Iterable[_Member], steps: Iterable[int]) -> None:
    """Writes the inputs of some steps of all vectors, at once."""
    chosen = list(steps)
    given = [(member, topic, block) for member in members for topic, block in member.blocks(chosen)]
    offsets = log.append([Append(topic, 0, block) for _, topic, block in given])
    for (member, topic, block), offset in zip(given, offsets, strict=True):
        member.fed(topic, offset, block.count)


def _take(log: Log, members: Iterable[_Member], step: int) -> None:
    """Reads the outputs of a step, for all vectors that have that step."""
    for member in members:
        if step < len(member.inputs):
            member.steps.append(member.take(log))


class _Member:
    """A vector that is a part of an application.

    Attributes:
        steps: The outputs of each step so far.
        serdes: The serdes of key and value, by input topic.
        inputs: Its inputs, with prefixed names.
    """

    def __init__(self, vector: Vector, steps: _Steps, app: App) -> None:
        before = len(app.plan().nodes)
        self._prefix = f"v{before:05}-"
        self._vector = vector
        self.steps = steps
        topology = [_prefixed(node, self._prefix) for node in vector["topology"]]
        self.serdes = {topic: _serdes(node) for node in topology for topic in _topics(node)}
        self.inputs = [
            {**step, "topic": self._prefix + step["topic"]} if "topic" in step else step for step in vector["inputs"]
        ]
        _, self._stores = Topology({**vector, "topology": topology}, app).build()
        sinks = [node for node in app.plan().nodes[before:] if isinstance(node, Sink)]
        self._outputs: dict[str, _Serdes] = {}
        self._chosen: _Serdes | None = None
        for sink in sinks:
            if isinstance(sink.topic, str):
                self._outputs.setdefault(sink.topic, (sink.key, sink.value))
            else:
                self._chosen = self._chosen or (sink.key, sink.value)
        self._read: Counter[str] = Counter()
        self._fed: dict[str, set[int]] = {}

    def blocks(self, steps: Iterable[int]) -> Iterable[tuple[str, Block]]:
        """The inputs of some steps, by topic."""
        records: dict[str, list[Any]] = {}
        for step in (self.inputs[number] for number in steps if number < len(self.inputs)):
            if "topic" in step:
                key, value = self.serdes[step["topic"]]
                headers = tuple((name, None if v is None else v.encode()) for name, v in step.get("headers", []))
                row = (step["ts"], key.serialize(step["key"]), value.serialize(step["value"]), headers)
                records.setdefault(step["topic"], []).append(row)
        return [(topic, encode(*zip(*rows, strict=True))) for topic, rows in records.items()]

    def fed(self, topic: str, offset: int, count: int) -> None:
        """Records the offsets of inputs, so that they are not read as outputs if a topic is both."""
        self._fed.setdefault(topic, set()).update(range(offset, offset + count))

    def take(self, log: Log) -> list[dict[str, Any]]:
        """Returns the records written since the last call, by topic."""
        if self._chosen is not None:
            written = [topic.name for topic in log.topics() if topic.name.startswith(self._prefix)]
            self._outputs = {**dict.fromkeys(set(written) - self.serdes.keys(), self._chosen), **self._outputs}
        records = []
        for topic, (end,) in log.ends(sorted(self._outputs)).items():
            start, self._read[topic] = self._read[topic], end
            if end > start:
                own = self._fed.get(topic, set())
                rows = log.read(topic, 0, start, end).to_pylist()
                records += [self._show(topic, row) for row in rows if row["offset"] not in own]
        return records

    def _show(self, topic: str, row: dict[str, Any]) -> dict[str, Any]:
        key, value = self._outputs[topic]
        headers = decode_headers(row["headers"]) if row["headers"] else ()
        record: Record[Any, Any] = Record(
            key.deserialize(row["key"]), value.deserialize(row["value"]), row["timestamp"], headers
        )
        shown = show_record(topic.removeprefix(self._prefix), record)
        if isinstance(shown["value"], str):  # the origin of the record
            shown["value"] = shown["value"].replace(self._prefix, "")
        return shown

    def dump(self, host: Host) -> dict[str, Any]:
        """The rows of the stores of the vector."""
        stores = dump_stores(cast("Any", host), self._stores, self._vector["inputs"], self.steps)
        return {name.removeprefix(self._prefix): rows for name, rows in stores.items()}

    def result(self, stores: dict[str, Any], counted: Counter[tuple[str, str]]) -> dict[str, Any]:
        """The result of the vector. Of the records dropped in the application, it counts those of the vector."""
        dropped = sum(
            count
            for (operator, reason), count in counted.items()
            if operator.startswith(self._prefix) and reason not in UNCOUNTED
        )
        return {"outputs": self.steps, "stores": stores, "dropped": dropped}


def _prefixed(node: dict[str, Any], prefix: str) -> dict[str, Any]:
    """A copy of a node whose names have a prefix: its name, topics, stores, and children."""
    made = dict(node)
    for field in ("topic", "store", "name", "then", "else"):
        if field in node:
            made[field] = prefix + node[field]
    if "topics" in node:
        made["topics"] = [prefix + topic for topic in node["topics"]]
    if "topic_expr" in node:
        made["topic_expr"] = ["concat", ["lit", prefix], node["topic_expr"]]
    return made


def _serdes(node: dict[str, Any]) -> _Serdes:
    return serde_for(TYPES[node["key"]], "key"), serde_for(TYPES[node["value"]], "value")


# ----- executions ----------------------------------------------------------------------------------------------------


def _unread(log: Log, application: str, topics: list[str], *, committed: bool = True) -> dict[str, int]:
    """The number of records that the application has not read, by topic; topics without any are left out.

    The outputs and the offsets of a batch become visible together, so without unread records there is no more output.
    Of a transaction of a worker, offsets may be visible before the internal records, so that those count that are not
    yet committed.
    """
    read = log.committed(application)
    lags = {topic: end - read.get((topic, 0), 0) for topic, (end,) in log.ends(topics, committed=committed).items()}
    return {topic: lag for topic, lag in lags.items() if lag > 0}


class _LocalHost:
    """Runs an application in this process."""

    def __init__(self, app: App, *, cold: bool, seed: int | None) -> None:
        self._run = InProcessRun(app, cold=cold)
        application = self._run.application
        self._id = app.id
        self._views = ViewDatabase(log_location(app.config).views)
        self._specs = {spec.name: spec for spec in application.program.topology.stores}
        self._topics = application.subscription.topics
        self._random = None if seed is None else random.Random(seed)
        self.dropped: Counter[tuple[str, str]] = Counter()

    def settle(self) -> None:
        """Runs batches until all records are read."""
        while unread := _unread(self._run.log, self._id, self._topics):
            if self._random is not None:
                self._run.change(records=len(unread) * self._random.randint(1, 5))
            assert self._run.batch()
            for drop in (drop for result in self._run.results for drop in result.drops):
                self.dropped[drop.operator, drop.reason] += drop.count

    def store(self, name: str, *, timestamped: bool = False) -> Any:
        """Opens a store."""
        return open_view(self._views, self._id, self._specs[name], timestamped=timestamped)

    def close(self) -> None:
        """Stops the application."""
        self._views.close()
        self._run.close()


class _RunningHost:
    """Starts an application: on Spark, or in workers of this process."""

    def __init__(self, app: App, *, restart_every: int | None) -> None:
        if app.config["execution.mode"] != "local":
            from pyspark import cloudpickle

            for module in (expressions, interpreter, processors):  # Spark's workers cannot import them
                cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        self._app = app
        self._restart_every = restart_every
        self._settled = 0
        self._restarts = 0
        self.dropped: Counter[tuple[str, str]] = Counter()
        self._handle = app.start()
        self._log = open_log(app.config["state.dir"])
        self._topics = sorted(self._handle.metrics()["sources"])

    def settle(self) -> None:
        """Waits until all records are read. Starts the application again afterwards, if it is due."""
        begun = looked = time.monotonic()
        while _unread(self._log, self._app.id, self._topics, committed=False):
            now = time.monotonic()
            if self._handle.wait(max(_POLL, 4 * (now - looked))):  # the checks must not take most of the time
                raise AssertionError("the application has stopped")
            looked = time.monotonic()
            assert looked - begun < _LONGEST_WAIT, f"records are unread after {_LONGEST_WAIT} seconds"
        self._wait_until_visible()
        self._settled += 1
        if self._restart_every is not None and self._settled % self._restart_every == 0:
            self._restart()

    def _wait_until_visible(self) -> None:
        """Waits for the ends of transactions that contain outputs: on a cluster, offsets may be visible before them."""
        topics = [topic.name for topic in self._log.topics() if not topic.internal]
        while self._log.ends(topics) != self._log.ends(topics, committed=False):
            time.sleep(_POLL / 10)

    def _restart(self) -> None:
        """Stops the application, and starts it again, every second time without its local page stores."""
        self._stop()
        self._restarts += 1
        if self._restarts % 2 == 0:
            for stores in Path(self._app.config["state.dir"]).rglob("workers"):
                shutil.rmtree(stores)
        self._handle = self._app.start()

    def _stop(self) -> None:
        """Stops the application. Its metrics are complete afterwards."""
        self._handle.stop()
        for name, figures in self._handle.metrics()["operators"].items():
            self.dropped.update({(name, why): count for why, count in figures["dropped"].items()})

    def store(self, name: str, *, timestamped: bool = False) -> Any:
        """Opens a store."""
        return self._handle.store(name, timestamped=timestamped)

    def close(self) -> None:
        """Stops the application."""
        self._stop()
        self._log.close()
