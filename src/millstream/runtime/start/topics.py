"""The topics of an application: checks those that it reads, creates those that it writes."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.connect import Connector, SourceConnector
from millstream.core.durations import later
from millstream.errors import SetupError, UnknownTopicError
from millstream.log.api import Log, Topic
from millstream.plan.contracts import quarantine_topics
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition, Sink
from millstream.plan.topics import topics_written
from millstream.runtime.program.program import Program
from millstream.stages import Topology
from millstream.state.spec import StoreSpec

REPARTITION = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""The configuration of repartition topics. The runtime deletes the records that were read."""

_DAY_MS = 24 * 60 * 60 * 1000


def create_source_topics(connectors: Iterable[Connector], log: Log) -> None:
    """Creates the topics that sources name, unless they exist: the topology may read them."""
    for connector in connectors:
        if isinstance(connector, SourceConnector):
            for name, config in connector.source.topics().items():
                log.create_topic(name, connector.partitions, {**connector.topic_config, **config}, exist_ok=True)


def input_counts(topology: Topology, log: Log) -> dict[str, int]:
    """Returns the number of partitions of each input topic.

    An application may read a topic that it writes itself. If that does not exist yet, the start creates it, with as
    many partitions as the input topic that has most.

    Raises:
        UnknownTopicError: An input topic does not exist, and the application does not write it.
    """
    counts: dict[str, int] = {}
    own = set(topics_written(topology.plan))
    created = []
    named = [(topic, source.at) for source in topology.plan.of_type(Source) for topic in source.topics]
    named += [(table.topic, table.at) for table in topology.global_tables]
    for topic, at in named:
        try:
            counts[topic] = log.topic(topic).partitions
        except UnknownTopicError as error:
            if topic in own:
                created.append(topic)
                continue
            suggested = error.hint is not None and "did you mean" in error.hint
            hint = error.hint if suggested else f"create it: log.create_topic({topic!r})"
            raise UnknownTopicError(f"{at}: there is no topic {topic!r}", hint=hint) from None
    return counts | dict.fromkeys(created, max(counts.values(), default=1))


def create_topics(program: Program, log: Log) -> None:
    """Creates the topics that an application writes, unless they exist; records how many partitions they have.

    Raises:
        SetupError: An internal topic exists with other partitions or another cleanup policy than it needs.
    """
    topology, direct = program.topology, program.placement.direct
    for node in topology.plan.of_type(Repartition):
        if node not in direct:
            create_internal(program, log, topology.topic_of(node), node.partitions or program.tasks, REPARTITION)
    for spec in topology.stores:
        topic = program.changelog_of(spec)
        if topic is not None:
            create_internal(program, log, topic, program.tasks, changelog_config(spec))
    create_outputs(program, log)


def changelog_config(spec: StoreSpec) -> dict[str, str]:
    """The configuration of the changelog of a store."""
    config = {"cleanup.policy": "compact"}
    if spec.kind == "versioned" and spec.retention_ms is not None:  # a row has more than one value
        config["min.compaction.lag.ms"] = str(later(spec.retention_ms, _DAY_MS))
    return config


def create_outputs(program: Program, log: Log) -> None:
    """Creates the topics of sinks, and those of dead letters, unless they exist."""
    for node in program.topology.plan.of_type(Sink):
        if isinstance(node.topic, str):
            _create(program, log, node.topic, program.counts.get(node.topic, program.tasks))
    dead_letters = program.config["errors.dead.letter.queue.topic.name"]
    letters = quarantine_topics(program.topology.plan, program.config) | ({dead_letters} - {None})
    for topic in sorted(letters):
        _create(program, log, topic, 1)


def _create(program: Program, log: Log, name: str, partitions: int) -> None:
    topic = log.create_topic(name, partitions, {}, internal=False, exist_ok=True)
    program.counts[name] = topic.partitions


def create_internal(program: Program, log: Log, name: str, partitions: int, config: dict[str, str]) -> None:
    """Creates an internal topic, unless it exists.

    Raises:
        SetupError: It exists with other partitions or another cleanup policy.
    """
    topic = log.create_topic(name, partitions, config, internal=True, exist_ok=True)
    _check_internal(topic, partitions, config["cleanup.policy"])
    program.counts[name] = topic.partitions


def _check_internal(topic: Topic, partitions: int, policy: str) -> None:
    existing = topic.config.get("cleanup.policy", "delete")
    if topic.partitions == partitions and set(policy.split(",")) <= set(existing.split(",")):
        return
    what = f"{topic.partitions} partitions" if topic.partitions != partitions else f"cleanup.policy {existing}"
    needed = f"{partitions}" if topic.partitions != partitions else policy
    raise SetupError(
        f"the application's own topic {topic.name!r} has {what}, and must have {needed}",
        hint="it belongs to another application, or to an earlier form of this one: choose another application id; or "
        "begin again from the input: millstream reset",
    )
