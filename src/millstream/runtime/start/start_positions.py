"""Start positions: of all topics at the first start of an application, later of topics that are new to it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from millstream.config import offset_reset
from millstream.errors import SetupError
from millstream.log.api import Log, Scope
from millstream.plan.fingerprint import PlainPlan
from millstream.plan.sources import Source
from millstream.plan.topics import reads
from millstream.runtime.batches.batch_end import BatchEnd, TopicOffsets
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.clock import Clock
from millstream.runtime.program.program import Program
from millstream.runtime.start.application_state import ApplicationState, ResetPosition


class StartPositions:
    """Finds the start positions of an application, whose topics must exist.

    Args:
        program: The program of the application.
        log: Its log.
        subscription: The topics that it reads.
        epoch: Epoch of this instance.
        clock: The clock for positions that are a duration before now.
    """

    def __init__(self, program: Program, log: Log, subscription: Subscription, epoch: int, clock: Clock) -> None:
        self._program = program
        self._epoch = epoch
        self._clock = clock
        self._application = program.topology.application_id
        self._log = log
        self._subscription = subscription
        self._starts = log.starts(subscription.topics)
        self._ends = log.ends(subscription.topics)

    def find(self, state: ApplicationState) -> BatchEnd:
        """Returns the start positions: those of the first start, and those of topics that were added since.

        They must be recorded before anything is read: a restart must come to the same positions.

        Args:
            state: The recorded state of the application.
        """
        first = state.start or BatchEnd(offsets={})
        if state.start is not None:
            assert state.started_plan is not None
            offsets = self._with_new(first.offsets, state.started_plan)
        elif state.reset_to is not None:
            offsets = self._after_reset(state.reset_to)
        else:
            offsets = self._by_policy(topic for topic in self._starts if topic not in self._subscription.globals)
        offsets |= {topic: self._starts[topic] for topic in self._subscription.globals}  # they are read from the start
        epochs = {topic: first.global_epochs.get(topic, self._epoch) for topic in self._subscription.globals}
        return BatchEnd(offsets=offsets, global_ends=self._global_ends(first.global_ends), global_epochs=epochs)

    def _with_new(self, recorded: TopicOffsets, plan: PlainPlan) -> TopicOffsets:
        """Recorded positions, and positions of topics and partitions that have none.

        A topic that the topology did not read before, or only as a global table, begins as at a first start. A topic
        that matches a pattern since, and an added partition, begin at their first record, as if the application had
        run.
        """
        operators = plan["operators"].values()
        options = [operator["options"] for operator in operators if operator["kind"] == "source"]
        patterns = [re.compile(option["pattern"]) for option in options if option.get("pattern") is not None]
        tables = {operator["options"]["topic"] for operator in operators if operator["kind"] == "global-table"}
        recorded = {topic: row for topic, row in recorded.items() if topic not in tables}
        others = (topic for topic in self._starts if topic not in recorded and topic not in self._subscription.globals)
        unmatched = (topic for topic in others if not any(pattern.fullmatch(topic) for pattern in patterns))
        offsets = self._by_policy(unmatched, tables)
        offsets |= recorded  # including topics that are not read any more: an interrupted batch may begin there
        added = {topic: row[len(offsets.get(topic, [])) :] for topic, row in self._starts.items()}
        return offsets | {topic: offsets.get(topic, []) + row for topic, row in added.items()}

    def _global_ends(self, recorded: Mapping[str, list[int]]) -> TopicOffsets:
        """Ends up to which global tables, and changelogs of rebuilt stores, are read before other topics."""
        topics = sorted(self._subscription.globals | self._subscription.restores)
        return {topic: recorded.get(topic, self._ends[topic]) for topic in topics}

    def _after_reset(self, begin: ResetPosition) -> TopicOffsets:
        """Positions that a reset has set: ``earliest``, ``latest``, a time, or an offset."""
        if begin == "earliest":
            return dict(self._starts)
        if begin == "latest":
            return dict(self._ends)
        if isinstance(begin, dict):
            return {
                topic: [
                    min(max(begin["offset"], start), end) for start, end in zip(starts, self._ends[topic], strict=True)
                ]
                for topic, starts in self._starts.items()
            }
        assert isinstance(begin, int)
        times = {(topic, p): begin for topic, row in self._starts.items() for p in range(len(row))}
        offsets = self._log.offsets_for_times(times)
        return {topic: [offsets[topic, p] for p in range(len(row))] for topic, row in self._starts.items()}

    def _by_policy(self, topics: Iterable[str], unread: Collection[str] = ()) -> TopicOffsets:
        """Committed offsets of the application or its group, else the policy of the source or ``auto.offset.reset``.

        Args:
            topics: The topics.
            unread: Those whose committed offsets do not count.
        """
        policies = {topic: self._policy(topic) for topic in topics}
        now = self._clock.time_ms()
        times = {
            (topic, partition): now - policy
            for topic, policy in policies.items()
            if isinstance(policy, int)
            for partition in range(len(self._ends[topic]))
        }
        by_time = self._log.offsets_for_times(times) if times else {}
        published = self._log.applications.published(Scope(self._application))
        committed = self._log.committed(self._application) | dict(published.offsets if published is not None else {})

        def begin(topic: str, partition: int) -> int:
            start, end = self._starts[topic][partition], self._ends[topic][partition]
            if (topic, partition) in committed and topic not in unread:
                return max(committed[topic, partition], start)
            if policies[topic] == "none":
                raise SetupError(
                    f"group {self._application!r} has no committed offset in partition {partition} of topic {topic!r}, "
                    "and auto.offset.reset is none",
                    hint="commit one, or set where to begin: earliest, latest or by_duration:…",
                )
            return end if policies[topic] == "latest" else by_time.get((topic, partition), start)

        return {topic: [begin(topic, partition) for partition in range(len(self._ends[topic]))] for topic in policies}

    def _policy(self, topic: str) -> Any:
        """``earliest``, ``latest``, ``none``, or a number of milliseconds before now."""
        if topic in self._subscription.internal:
            return "earliest"
        sources = [source for source in self._program.topology.plan.of_type(Source) if reads(source, topic)]
        chosen = [source.offset_reset for source in sources if source.offset_reset is not None]
        return offset_reset("offset_reset", chosen[-1]) if chosen else self._program.config["auto.offset.reset"]
