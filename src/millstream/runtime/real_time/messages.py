"""Messages between the coordinator of an application and its workers."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from millstream.runtime.messages import Failure, Message, TaskResult
from millstream.runtime.order.positions import LEAST, Position
from millstream.stages.task_id import TaskId

Phase: TypeAlias = Literal["starting", "restoring", "running", "ended"]


class Assignment(Message, array_like=True, frozen=True):
    """The work of one worker.

    Attributes:
        worker: The number of the worker.
        epoch: The epoch of the application that starts the worker.
        tasks: Its tasks, each with its partition in the topic of task records.
        topics: The input topics of the application, in the order in which it began to read them. The index of a topic
            is part of the order positions of its records.
        identity: The id of the application's state, which the local page stores contain.
        until: End offsets of input topics up to which they are read, by topic and partition; None: no end.
        start: The number of starts of this worker, the first one included.
    """

    worker: int
    epoch: int
    tasks: list[tuple[TaskId, int]]
    topics: list[str]
    identity: str = ""
    until: dict[str, list[int]] | None = None
    start: int = 1

    @property
    def name(self) -> str:
        """The name of the worker, as its scope in the log has it."""
        return f"worker-{self.worker}"


class Sent(Message, array_like=True, frozen=True):
    """Records that a worker has committed to a partition of an internal topic.

    Attributes:
        topic: The topic.
        partition: The partition.
        end: The offset after the last one.
        least: The least order position of the records.
    """

    topic: str
    partition: int
    end: int
    least: Position


class TaskReport(Message, array_like=True, frozen=True):
    """The progress of a task, as its last commit has it.

    Attributes:
        task: The task.
        pending: The least order position that the task may still process, records of internal topics that it has not
            read yet left out; None if it has processed everything.
        read: (topic, partition, offset): the offsets up to which the task has read its internal topics.
        through: The last round through which the task has caught up, by level: with inputs from outside of its
            cycle, then with the topics inside the cycle up to each level (`ExchangeGraph.levels`).
        is_done: The task has processed everything up to the end offsets of the assignment.
        held: By level, the least order position that the task may still process; as *pending*, which is the least of
            them.
        pace: Many records of internal topics wait. Their writers should take no records after this order position until
            the task has taken those up to it. None: there are not many.
    """

    task: TaskId
    pending: Position | None = LEAST
    read: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    through: list[int] = msgspec.field(default_factory=list)
    is_done: bool = False
    held: list[Position | None] = msgspec.field(default_factory=list)
    pace: Position | None = None


class Report(Message, array_like=True, frozen=True):
    """A report of a worker. It also serves as the heartbeat.

    Attributes:
        worker: The number of the worker.
        start: The number of starts of the worker; reports of an earlier start are ignored.
        phase: The phase of the worker.
        tasks: The tasks whose progress has changed.
        sent: The records that the worker has committed to internal topics since its last report.
        request: The number of the worker's last request for a round; 0 if it has made none.
        result: The figures of a publication that was committed.
        seconds: Time spent to process it.
        commit_seconds: Time spent to commit it.
        progress: A message about a step that takes long, such as the restoration of stores.
        failure: The error that has ended the worker.
        printed: Lines that user functions have printed.
        tables: (topic, partition, offset): the offsets up to which the worker has applied global tables.
        sizes: The sizes of the worker's stores, and the numbers of records that its tasks hold back.
    """

    worker: int
    start: int = 1
    phase: Phase = "running"
    tasks: list[TaskReport] = msgspec.field(default_factory=list)
    sent: list[Sent] = msgspec.field(default_factory=list)
    request: int = 0
    result: TaskResult | None = None
    seconds: float = 0.0
    commit_seconds: float = 0.0
    progress: str = ""
    failure: Failure | None = None
    printed: list[str] = msgspec.field(default_factory=list)
    tables: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    sizes: TaskResult | None = None


class Limit(Message, array_like=True, frozen=True):
    """How far the tasks of a sub-topology may go, as far as the sub-topologies upstream are concerned.

    Attributes:
        subtopology: The sub-topology.
        limit: No record with a lower order position will arrive through an internal topic; None: none at all.
        through: The last round through which all sub-topologies upstream have caught up.
        inside: For each level of the topics inside the cycle to which the sub-topology belongs: no record with a lower
            order position will arrive through a topic of the level; None: none at all.
        inside_through: For each of these levels, the last round through which the sub-topologies of the cycle have
            caught up with everything of which records of the level come: inputs from outside, and lower levels.
    """

    subtopology: int
    limit: Position | None
    through: int
    inside: list[Position | None] = msgspec.field(default_factory=list)
    inside_through: list[int] = msgspec.field(default_factory=list)


class Orders(Message, array_like=True, frozen=True):
    """The current orders of the coordinator to a worker. Each replaces the ones before.

    Attributes:
        version: Increases with each change.
        round: The number of the current round. A worker that sees a new one notes the ends of its input topics. It has
            caught up through the round when it has processed and committed everything before these ends.
        granted: (request, round): the last request of the worker for a round, and the round that was begun for it.
        limits: The limits of sub-topologies that read internal topics.
        ends: (topic, partition, offset): the limits hold for a task once it has read its internal topics up to these
            offsets.
        is_paused: The worker processes nothing until it is resumed.
        is_stopping: The worker commits what it has processed, and ends.
        tables: (topic, partition, offset): the offsets up to which all workers have applied global tables.
        paces: (sub-topology, order position): its tasks take no records after the position for now.
    """

    version: int = 0
    round: int = 0
    granted: tuple[int, int] = (0, 0)
    limits: list[Limit] = msgspec.field(default_factory=list)
    ends: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    is_paused: bool = False
    is_stopping: bool = False
    tables: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    paces: list[tuple[int, Position]] = msgspec.field(default_factory=list)
