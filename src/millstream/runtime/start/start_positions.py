"""Where an application begins to read: in all of its topics at its first start, later in those that are new to it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from millstream.config import offset_reset
from millstream.errors import SetupError
from millstream.log.api import Log
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

    def _with_new(self, known: TopicOffsets, plan: PlainPlan) -> TopicOffsets:
        """What is known, and where to begin in what is not.

        A topic that the topology did not read before, or only as a global table, is begun as all are at a first start.
        One that came to a pattern, and a partition that came to a topic, would have been read from the beginning if the
        application had run.
        """
        operators = plan["operators"].values()
        options = [operator["options"] for operator in operators if operator["kind"] == "source"]
        patterns = [re.compile(each["pattern"]) for each in options if each.get("pattern") is not None]
        tables = {one["options"]["topic"] for one in operators if one["kind"] == "global-table"}
        known = {topic: row for topic, row in known.items() if topic not in tables}
        others = (topic for topic in self._starts if topic not in known and topic not in self._subscription.globals)
        found = self._by_policy((t for t in others if not any(one.fullmatch(t) for one in patterns)), tables)
        found |= known  # also of topics that are read no more: a batch that was interrupted may have begun there
        return found | {t: found.get(t, []) + starts[len(found.get(t, [])) :] for t, starts in self._starts.items()}

    def _global_ends(self, known: Mapping[str, list[int]]) -> TopicOffsets:
        """How far to read global tables, and changelogs of which stores are rebuilt, before anything else."""
        topics = sorted(self._subscription.globals | self._subscription.restores)
        return {topic: known.get(topic, self._ends[topic]) for topic in topics}

    def _after_reset(self, begin: ResetPosition) -> TopicOffsets:
        """Where a reset says: ``earliest``, ``latest``, a time, or an offset."""
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
        found = self._log.offsets_for_times({(t, p): begin for t, row in self._starts.items() for p in range(len(row))})
        return {topic: [found[topic, p] for p in range(len(row))] for topic, row in self._starts.items()}

    def _by_policy(self, topics: Iterable[str], unread: Collection[str] = ()) -> TopicOffsets:
        """Where the application or its group has read to, else where ``auto.offset.reset`` or the source says.

        Args:
            topics: The topics.
            unread: Those of which it counts as nothing what was read so far.
        """
        policies = {topic: self._policy(topic) for topic in topics}
        now = self._clock.time_ms()
        times = {
            (topic, partition): now - policy
            for topic, policy in policies.items()
            if isinstance(policy, int)
            for partition in range(len(self._ends[topic]))
        }
        found = self._log.offsets_for_times(times) if times else {}
        published = self._log.applications.published(self._application)
        committed = self._log.committed(self._application) | dict(published.offsets if published is not None else {})

        def begin(topic: str, partition: int) -> int:
            start, end = self._starts[topic][partition], self._ends[topic][partition]
            if (topic, partition) in committed and topic not in unread:
                return max(committed[topic, partition], start)
            if policies[topic] == "none":
                raise SetupError(
                    f"group {self._application!r} has no committed offset in partition {partition} of topic {topic!r}, "
                    "and auto.offset.reset is none",
                    hint="commit one, or say where to begin: earliest, latest or by_duration:…",
                )
            return end if policies[topic] == "latest" else found.get((topic, partition), start)

        return {topic: [begin(topic, partition) for partition in range(len(self._ends[topic]))] for topic in policies}

    def _policy(self, topic: str) -> Any:
        """``earliest``, ``latest``, ``none``, or how many milliseconds before now."""
        if topic in self._subscription.internal:
            return "earliest"
        sources = [source for source in self._program.topology.plan.of_type(Source) if reads(source, topic)]
        chosen = [source.offset_reset for source in sources if source.offset_reset is not None]
        return offset_reset("offset_reset", chosen[-1]) if chosen else self._program.config["auto.offset.reset"]
