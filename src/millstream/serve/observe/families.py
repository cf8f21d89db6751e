"""The metrics that the server exposes: their names, types, labels and meanings, and where a report has their values.

Labels have names of applications, topics, operators and stores, never keys or values of records. Names and labels are
an interface: dashboards, alert rules and `docs/reference/metrics.md` use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from millstream.plan.contracts import counted
from millstream.serve.observe.reports import Report

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Sample: TypeAlias = tuple[tuple[str, ...], Any]
"""The values of the labels after ``application_id``, and the value: a number, or the histogram of a report."""
Metrics: TypeAlias = Mapping[str, Any]

CONTRACT = "contract violation"
"""The reason of records that violate a contract; the rule is in a metric of its own."""

STATES = (
    "CREATED",
    "STARTING",
    "RUNNING",
    "PAUSED",
    "PENDING_SHUTDOWN",
    "NOT_RUNNING",
    "PENDING_ERROR",
    "ERROR",
    "KILLED",
    "UNKNOWN",
)


class Family(NamedTuple):
    """A metric.

    Attributes:
        name: Its name, without ``millstream_``, and ``_total`` of counters.
        kind: Its type.
        help: Its meaning.
        labels: Its labels, after ``application_id``.
        samples: Returns its samples from the metrics of an application.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Metrics], Iterator[Sample]]

    @property
    def full_name(self) -> str:
        """The name as a query has it."""
        return f"millstream_{self.name}" + ("_total" if self.kind == "counter" else "")


def _single(*path: str) -> Callable[[Metrics], Iterator[Sample]]:
    """The samples of a metric that is one entry of the report."""

    def samples(metrics: Metrics) -> Iterator[Sample]:
        value: Any = metrics
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None:
            yield (), value

    return samples


def _read(metrics: Metrics) -> Iterator[Sample]:
    for topic, source in metrics.get("sources", {}).items():
        yield (topic,), source["read"]


def _written(metrics: Metrics) -> Iterator[Sample]:
    for topic, count in metrics.get("sinks", {}).items():
        yield (topic,), count


def _lag(metrics: Metrics) -> Iterator[Sample]:
    for topic, row in metrics.get("lags", {}).items():
        for partition, lag in enumerate(row):
            yield (topic, str(partition)), lag


def _node(key: str) -> Callable[[Metrics], Iterator[Sample]]:
    def samples(metrics: Metrics) -> Iterator[Sample]:
        for node, counts in metrics.get("nodes", {}).items():
            if counts[key] is not None:
                yield (node,), counts[key]

    return samples


def _reasons(operators: Mapping[str, Mapping[str, int]]) -> Iterator[Sample]:
    for node, reasons in operators.items():
        counts: dict[str, int] = {}
        for reason, count in reasons.items():
            name = reason if counted(reason) is None else CONTRACT
            counts[name] = counts.get(name, 0) + count
        for name, count in counts.items():
            yield (node, name), count


def _dropped(metrics: Metrics) -> Iterator[Sample]:
    yield from _reasons({node: counts["dropped"] for node, counts in metrics.get("operators", {}).items()})


def _dead_letters(metrics: Metrics) -> Iterator[Sample]:
    yield from _reasons(metrics.get("dead_letters", {}))


def _violations(metrics: Metrics) -> Iterator[Sample]:
    for contract, figures in metrics.get("contracts", {}).items():
        for rule, reasons in figures["rules"].items():
            for reason, count in reasons.items():
                yield (contract, rule, reason), count


def _phases(metrics: Metrics) -> Iterator[Sample]:
    for phase, histogram in metrics.get("histograms", {}).get("phases", {}).items():
        yield (phase,), histogram


def _stream_times(metrics: Metrics) -> Iterator[Sample]:
    for subtopology, partition, time in metrics.get("stream_times", []):
        yield (str(subtopology), str(partition)), time / 1000


def _behind(metrics: Metrics) -> Iterator[Sample]:
    for subtopology, partition, time in metrics.get("stream_times", []):
        yield (str(subtopology), str(partition)), max(0.0, (metrics["time"] - time) / 1000)


def _store(key: str) -> Callable[[Metrics], Iterator[Sample]]:
    def samples(metrics: Metrics) -> Iterator[Sample]:
        for store, figures in metrics.get("stores", {}).items():
            if key in figures:
                yield (store,), figures[key]

    return samples


def _memory(metrics: Metrics) -> Iterator[Sample]:
    for process, size in metrics.get("memory", {}).items():
        yield (process,), size


def _connector_states(metrics: Metrics) -> Iterator[Sample]:
    for connector, figures in metrics.get("connectors", {}).items():
        yield (connector, figures["state"]), 1.0


def _connector_records(metrics: Metrics) -> Iterator[Sample]:
    for connector, figures in metrics.get("connectors", {}).items():
        yield (connector,), figures["records"]


def _connector_dropped(metrics: Metrics) -> Iterator[Sample]:
    for connector, figures in metrics.get("connectors", {}).items():
        counts: Counter[str] = Counter()
        for task in figures["tasks"]:
            counts.update(task["dropped"])
        for reason, count in counts.items():
            yield (connector, reason), count


def _connector_gauges(metrics: Metrics) -> Iterator[Sample]:
    for connector, figures in metrics.get("connectors", {}).items():
        for task in figures["tasks"]:
            for name, value in task["gauges"].items():
                yield (connector, task["task"], name), value


FAMILIES = (
    Family("records_processed", "counter", "Records read and processed, by topic.", ("topic",), _read),
    Family("records_written", "counter", "Records written, by topic.", ("topic",), _written),
    Family("consumer_lag_records", "gauge", "Records to be read, by partition.", ("topic", "partition"), _lag),
    Family("node_received_records", "counter", "Records that an operator has received.", ("node",), _node("in")),
    Family("node_sent_records", "counter", "Records that an operator has sent on.", ("node",), _node("out")),
    Family("dropped_records", "counter", "Records dropped, by operator and reason.", ("node", "reason"), _dropped),
    Family(
        "dead_letter_records",
        "counter",
        "Dropped records that are in a dead-letter or quarantine topic.",
        ("node", "reason"),
        _dead_letters,
    ),
    Family(
        "contract_violations",
        "counter",
        "Records that violate a contract, by rule and reason.",
        ("contract", "rule", "reason"),
        _violations,
    ),
    Family(
        "publication_duration_seconds",
        "histogram",
        "Duration of a batch, from its plan to its commit; in real-time execution, of a commit and its processing.",
        (),
        _single("histograms", "publication"),
    ),
    Family(
        "phase_duration_seconds",
        "histogram",
        "Duration of the phases of a batch (spark, of this read and engine; commit), or of a commit (process, commit).",
        ("phase",),
        _phases,
    ),
    Family(
        "commit_latency_seconds",
        "histogram",
        "Duration of the commit of a batch or of a worker: the phase commit by itself.",
        (),
        _single("histograms", "phases", "commit"),
    ),
    Family(
        "process_latency_seconds",
        "histogram",
        "Time from the read of the first record of a publication to the commit of its results.",
        (),
        _single("histograms", "latency", "processing"),
    ),
    Family(
        "event_latency_seconds",
        "histogram",
        "Age of output records when they were committed: the time of the commit minus the timestamp. From a sample.",
        (),
        _single("histograms", "latency", "event"),
    ),
    Family(
        "stream_time_seconds",
        "gauge",
        "Greatest timestamp that a task has taken.",
        ("subtopology", "partition"),
        _stream_times,
    ),
    Family(
        "watermark_lag_seconds",
        "gauge",
        "How far the stream time of a task (its watermark) is behind the clock.",
        ("subtopology", "partition"),
        _behind,
    ),
    Family("waiting_records", "gauge", "Records that wait for earlier ones in tasks.", (), _single("waiting")),
    Family("state_store_rows", "gauge", "Rows of a store, approximately.", ("store",), _store("rows")),
    Family("state_store_bytes", "gauge", "Bytes of a store on disk.", ("store",), _store("stored-bytes")),
    Family("state_store_memory_bytes", "gauge", "Bytes of a store in memory.", ("store",), _store("memory")),
    Family("state_bytes", "gauge", "Bytes of all state, with its log.", (), _single("state_bytes")),
    Family(
        "checkpoint_duration_seconds",
        "histogram",
        "Time to write changed state: with a batch, or the local page stores of a worker.",
        (),
        _single("histograms", "checkpoint"),
    ),
    Family("checkpoint_bytes", "counter", "Bytes of changed state written.", (), _single("checkpoint_bytes")),
    Family("connector_state", "gauge", "1 for the state of a connector.", ("connector", "state"), _connector_states),
    Family("connector_records", "counter", "Records that a connector has moved.", ("connector",), _connector_records),
    Family(
        "connector_dropped_records",
        "counter",
        "Records that a connector has dropped, by reason.",
        ("connector", "reason"),
        _connector_dropped,
    ),
    Family(
        "connector_gauge",
        "gauge",
        "What a connector itself reports, such as slot.retained.bytes and lag.ms of change data capture.",
        ("connector", "task", "gauge"),
        _connector_gauges,
    ),
    Family("restarts", "counter", "Restarts of the application, a worker or a task.", (), _single("restarts")),
    Family(
        "process_memory_bytes",
        "gauge",
        "Resident memory of the application's process, and of task hosts or workers.",
        ("process",),
        _memory,
    ),
)
"""The metrics of a running application, from its report."""


def _none(_metrics: Metrics) -> Iterator[Sample]:
    """The samples of a metric that is not in the metrics of a report."""
    return iter(())


STATE = Family("app_state", "gauge", "1 for the present state of an application.", ("state",), _none)
STARTED = Family("app_start_time_seconds", "gauge", "When the run began.", (), _none)
REPORTED = Family("app_report_time_seconds", "gauge", "When the last report was made.", (), _none)
FIRING = Family("alerts_firing", "gauge", "1 for an alert that fires.", ("rule", "severity"), _none)
EVERY = (STATE, STARTED, REPORTED, *FAMILIES, FIRING)
"""All metrics of applications."""


def metrics_of(report: Report) -> Metrics:
    """The metrics of a report, with the time of the report."""
    return {**report.content.get("metrics", {}), "time": report.content.get("time", 0)}
