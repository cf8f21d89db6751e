"""Prepares an application for real-time execution: topics, start positions and task records."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from millstream.config import Config
from millstream.core.failpoints import reach
from millstream.log.api import Append, Offsets, Publication, Scope
from millstream.log.blocks import ColumnBlock
from millstream.plan.stateless import Repartition
from millstream.runtime.batches.batch_end import TopicOffsets
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.program.program import Program
from millstream.runtime.queries import queryable
from millstream.runtime.real_time.input_partitioning import existing_counts, with_repartitions
from millstream.runtime.real_time.task import specs_of
from millstream.runtime.real_time.task_record import (
    CONFIG,
    KEY,
    TaskRecord,
    encode,
    last_record,
    read_offsets,
    topic_of,
)
from millstream.runtime.real_time.task_state import has_expiry
from millstream.runtime.real_time.view_follower import ViewFollower
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.compatibility import complete_changelogs, plain
from millstream.runtime.start.prepared_application import ACQUIRED, CREATED, RECORDED, PreparedApplication, tell
from millstream.runtime.start.schemas import with_recorded_schemas
from millstream.runtime.start.start_positions import StartPositions
from millstream.runtime.start.topics import (
    REPARTITION,
    create_internal,
    create_outputs,
    input_counts,
)
from millstream.runtime.start.view_rebuild import forget_rows, rebuild_views
from millstream.runtime.tasks.memory import merged, task_name
from millstream.stages import Topology
from millstream.stages.subtopology import changelog_topic
from millstream.stages.task_id import TaskId
from millstream.state.spec import StoreSpec

MODE = "real_time"
"""The mode that the log records of applications with workers, on Spark or not."""


class TaskSlot(NamedTuple):
    """A task, and its partition in the topic of task records."""

    task: TaskId
    slot: int


class PreparedRealTime(PreparedApplication):
    """An application that is prepared for real-time execution.

    Attributes:
        slots: The tasks of all sub-topologies.
        topics: The input topics, in the order in which the application began to read them.
        views: Derives views from changelogs; None if workers publish them.
        identity: Random id of the application's state. A local page store of another one is not used.
        groups: By sub-topology, the least one with which it shares input topics, directly or through others.
    """

    mode = MODE
    slots: list[TaskSlot]
    topics: list[str]
    identity: str
    views: ViewFollower | None
    groups: dict[int, int]

    def _prepare(self, topology: Topology, config: Config) -> None:
        self._defined = topology
        state = self._read_state(topology)
        self.base = 0
        self.checkpoint = str(self.directory / "checkpoint")
        counts = input_counts(topology, self.log)
        topology, added, messages = with_repartitions(
            topology, config["input.partitioning"], counts | existing_counts(topology, self.log), state.published_plan
        )
        topology = with_recorded_schemas(topology, state, register=True)
        tasks = max(counts.values(), default=1)
        self.program = Program(topology, config, tasks, counts | added, self.place, shuffle=False)
        self.lost = self._check_plan(state, config)
        for message in messages:
            tell(message)
        self.epoch = self.log.applications.acquire(Scope(self.id))
        reach(ACQUIRED)
        self.program = replace(self.program, complete_changelogs=complete_changelogs(self.program.logged, state))
        if state.published_plan is not None:
            before = state.published_plan["stores"]
            forget_rows(self.program, self.log, [spec for spec in topology.stores if spec.name not in before])
        self._create_topics()
        reach(CREATED)
        following = self.log.views.following
        self.views = None if following is None else ViewFollower(self.program, self.log, following)
        if self.views is None:
            rebuild_views(self.program, self.log, tell, again=False)
        else:
            self.views.catch_up(tell)
        self.subscription = Subscription(self.program, self.log, self._clock)
        self.first = StartPositions(self.program, self.log, self.subscription, self.epoch, self._clock).find(state)
        known = state.input_topics or []
        inputs = [t for t in self.subscription.topics if t not in self.subscription.internal]
        self.topics = known + [topic for topic in inputs if topic not in known]
        self.identity = state.checkpoint_identity or secrets.token_hex(8)
        self.groups = groups_of({part.parts[0].index: self._inputs_of(part) for part in self._parts()})
        self._write_records(self.first.offsets)
        reach(RECORDED)

    def _is_run_again(self) -> bool:
        """No: what a worker has published is not repeated."""
        return False

    def has_new_inputs(self) -> bool:
        """Whether topics have come that the application reads, or topics have more partitions now."""
        self.subscription.refresh(0)
        existing = {topic.name: topic.partitions for topic in self.log.topics()}
        known = self.program.counts
        inputs = set(self.subscription.topics) - self.subscription.internal
        return any(existing.get(topic, 0) > known.get(topic, 0) for topic in inputs)

    def prepare_again(self) -> None:
        """Prepares the application for topics and partitions that have come. Its workers must have ended.

        Raises:
            SetupError: The application cannot read them.
        """
        self.retry_while_unavailable(lambda: self._prepare(self._defined, self.program.config))

    def _create_topics(self) -> None:
        """Creates internal topics, changelogs and outputs, and finds out how many tasks each sub-topology has."""
        program, log = self.program, self.log
        topology = program.topology
        create_outputs(program, log)  # first, because the application may read them
        matching = Subscription(program, log, self._clock)
        internal = {topology.topic_of(node): node for node in topology.plan.of_type(Repartition)}
        for topic in matching.topics:
            if topic not in internal:
                program.counts[topic] = log.topic(topic).partitions
        program.counts.update((t, count) for t, count in existing_counts(topology, log).items() if t in internal)
        partitions = topology.partitions(program.counts)
        for topic in internal:
            create_internal(program, log, topic, partitions[topic], REPARTITION)
        tasks = replace(topology, parts=tuple(part.parts[0] for part in self._parts())).task_counts(partitions)
        for part in self._parts():
            for spec in specs_of(part):
                topic = changelog_topic(self.id, spec)
                create_internal(program, log, topic, tasks[part.parts[0].index], changelog_config(spec))
        ids = [TaskId(index, number) for index, count in sorted(tasks.items()) for number in range(count)]
        self.slots = [TaskSlot(task, slot) for slot, task in enumerate(ids)]
        self._create_record_topic()

    def _create_record_topic(self) -> None:
        needed = max(1, len(self.slots))
        topic = self.log.create_topic(topic_of(self.id), needed, CONFIG, internal=True, exist_ok=True)
        if topic.partitions < needed:
            self.log.add_partitions(topic.name, needed)

    def _parts(self) -> list[Topology]:
        """The sub-topologies that have tasks."""
        return [part for part in self.program.placement.tasks if part.parts]

    def committed_offsets(self) -> Offsets:
        """The least offset from which on a task reads each partition, as the task records have them."""
        return read_offsets(self.log, self.id)

    def _read_offsets(self) -> Offsets:
        return self.committed_offsets()

    def positions(self) -> Offsets:
        """The offsets from which on the application needs its topics: task records have them, except for new topics."""
        wanted = {**super().positions(), **self.committed_offsets()}
        starts = self.log.starts(sorted({topic for topic, _partition in wanted}))
        return {(topic, part): max(offset, starts[topic][part]) for (topic, part), offset in wanted.items()}

    # ----- task records ----------------------------------------------------------------------------------------

    def _write_records(self, first: TopicOffsets) -> None:
        """Writes the task records that are missing or incomplete, and the facts of the start, in one publication."""
        count = self.log.topic(topic_of(self.id)).partitions
        stored = [last_record(self.log, self.id, slot) for slot in range(count)]
        appends = []
        for task, slot in self.slots:
            record = self._record_of(task, stored, first)
            if stored[slot] != record:
                block = ColumnBlock([self._clock.time_ms()], [KEY], [encode(record, (self.epoch, 0))])
                appends.append(Append(topic_of(self.id), slot, block))
        for slot in range(len(self.slots), count):
            if stored[slot] is not None:  # it would be taken for the last one of its task some day
                block = ColumnBlock([self._clock.time_ms()], [KEY], [None])
                appends.append(Append(topic_of(self.id), slot, block))
        topology, config = self.program.topology, self.program.config
        started = ApplicationState(
            mode=MODE,
            tasks=self.program.tasks,
            started_plan=plain(topology),
            published_plan=plain(topology),
            complete_changelogs=sorted(self.program.complete_changelogs),
            queryable_stores=queryable(topology, config),
            start=self.first,
            input_topics=self.topics,
            checkpoint_identity=self.identity,
        )
        published = self.log.applications.published(Scope(self.id))
        self.log.applications.publish(
            Publication(
                scope=Scope(self.id),
                epoch=self.epoch,
                batch=0 if published is None else published.batch + 1,
                appends=appends,
                state=started.dump(),
            )
        )

    def _record_of(self, task: TaskId, stored: list[TaskRecord | None], first: TopicOffsets) -> TaskRecord:
        """The record with which a task begins: of its own last one, with positions of inputs that are new."""
        topology = next(part for part in self._parts() if part.parts[0].index == task.subtopology)
        name, number = task_name(topology), task.partition
        records = [record for record in stored if record is not None and record.partition == number]
        own = next((record for record in records if record.name == name), TaskRecord(name, number))
        offsets = {(topic, part): offset for record in [*records, own] for topic, part, offset in record.offsets}
        times = {(topic, part): time for record in [*records, own] for topic, part, time in record.times}
        internal = self.log.starts(self.subscription.internal)
        inputs: list[tuple[str, int, int]] = []
        for topic in self._inputs_of(topology):
            begins = internal.get(topic) or first.get(topic, [])
            if number < len(begins):
                inputs.append((topic, number, offsets.get((topic, number), begins[number])))
        read = {(topic, part) for topic, part, _offset in inputs}
        return TaskRecord(
            name,
            number,
            inputs,
            [entry for record in records for entry in record.taken if entry[:2] in read],
            [(*place, time) for place, time in times.items() if place in read],
            merged(record.cells for record in records) if own not in records else own.cells,
            own.position,
            own.store_cells,
        )

    def _inputs_of(self, topology: Topology) -> list[str]:
        """The topics that a sub-topology reads."""
        (part,) = topology.parts
        names = [topic for source in part.sources for topic in topology.topics(source)]
        patterns = [source.pattern for source in part.sources if source.pattern is not None]
        matching = [t for t in self.topics if t not in names and any(re.fullmatch(p, t) for p in patterns)]
        return [*names, *matching]


def groups_of(inputs: Mapping[int, Iterable[str]]) -> dict[int, int]:
    """Groups sub-topologies that share topics, directly or through others.

    Args:
        inputs: The topics that each sub-topology reads.

    Returns:
        For each sub-topology, the least one of its group.
    """
    groups: list[tuple[set[int], set[str]]] = []
    for index, names in inputs.items():
        members, topics = {index}, set(names)
        for group in [group for group in groups if group[1] & topics]:
            groups.remove(group)
            members, topics = members | group[0], topics | group[1]
        groups.append((members, topics))
    return {index: min(members) for members, _topics in groups for index in members}


def changelog_config(spec: StoreSpec) -> dict[str, str]:
    """The configuration of a changelog. Workers delete records whose rows have expired; age alone deletes none.

    Brokers refuse to delete records of topics that are only compacted.
    """
    if has_expiry(spec):
        return {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
    return {"cleanup.policy": "compact"}
