"""Global tables of a worker: one copy for all of its tasks, complete before a task begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from millstream.engine import InputRecord, OutputRecord, Task
from millstream.log.api import Fetched, Log, Offsets
from millstream.plan.node import Plan
from millstream.runtime.messages import Drop
from millstream.runtime.program.program import Program
from millstream.stages import Topology
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec
from millstream.views.changes import ViewChange, change_of


class GlobalTables:
    """The global tables of a worker. They are read from the start of their topics.

    Args:
        program: The application.
        log: The log.

    Attributes:
        stores: The stores of the tables, by name.
    """

    def __init__(self, program: Program, log: Log) -> None:
        topology = program.topology
        tables = topology.global_tables
        self.stores: dict[str, Any] = {}
        self._log = log
        self._application = topology.application_id
        self._topics = sorted({table.topic for table in tables})
        plan = Plan(topology.application_id, tables)
        self._task = Task(Topology(plan, topology.facts, ()), program.config, open_store=self._open)
        self._follower = log.follow() if tables else None
        self._specs = [table.store for table in tables]
        self._offsets: dict[tuple[str, int], int] = {}
        self._known: Offsets = {}
        self._letters: list[tuple[str, int, int, OutputRecord]] = []
        self._task.context.largest = program.log.largest

    def _open(self, spec: StoreSpec) -> Any:
        if spec.name not in self.stores:
            self.stores[spec.name] = open_store(spec)
        return self.stores[spec.name]

    def load(self) -> None:
        """Reads all records that exist now."""
        if self._follower is None:
            return
        self._known = self._log.committed(self._application)
        starts, ends = self._log.starts(self._topics), self._log.ends(self._topics)
        left = {(topic, number): end for topic, row in ends.items() for number, end in enumerate(row)}
        self._offsets = {(topic, number): starts[topic][number] for topic, number in left}
        self._follower.follow(self._offsets)
        while any(self._follower.position(*place) < end for place, end in left.items()):
            self._poll(0.02)

    def poll(self) -> None:
        """Applies new records."""
        if self._follower is not None:
            self._poll(0)

    def _poll(self, timeout: float) -> None:
        assert self._follower is not None
        for fetched in self._follower.poll(timeout):
            self._apply(fetched)
        # A partition may end in control records, which are not fetched.
        self._offsets = {place: self._follower.position(*place) for place in self._offsets}

    def _apply(self, fetched: Fetched) -> None:
        """Applies records. An earlier run has reported the dropped ones of those that it has committed."""
        known = self._known.get((fetched.topic, fetched.partition), 0)
        records = _records(fetched)
        context = self._task.context
        before = dict(context.dropped)
        self._task.add(fetched.topic, (record for record in records if record.offset < known))
        self._task.take_outputs()
        context.dropped = before
        for record in records:
            if record.offset >= known:
                self._task.add(fetched.topic, (record,))
                letters = self._task.take_outputs()
                self._letters += [(fetched.topic, fetched.partition, record.offset, letter) for letter in letters]

    def offsets(self) -> list[tuple[str, int, int]]:
        """Returns (topic, partition, offset): the offsets up to which the tables were applied."""
        return [(*place, offset) for place, offset in self._offsets.items()]

    def take_drops(self) -> list[Drop]:
        """Returns the numbers of records dropped since the last call."""
        dropped, self._task.context.dropped = self._task.context.dropped, {}
        return [Drop(*where, number) for where, number in dropped.items()]

    def take_letters(self, applied: Iterable[tuple[str, int, int]]) -> list[OutputRecord]:
        """Returns the dead letters of records before some offsets (topic, partition, offset), each once."""
        ends = {(topic, partition): offset for topic, partition, offset in applied}
        due = [entry for entry in self._letters if entry[2] < ends.get(entry[:2], 0)]
        self._letters = [entry for entry in self._letters if entry[2] >= ends.get(entry[:2], 0)]
        return [letter for _topic, _partition, _offset, letter in due]

    def take_views(self, has_view: Callable[[StoreSpec], bool]) -> list[ViewChange]:
        """Returns the changes of views since the last call."""
        changes = {spec: self._open(spec).changes() for spec in self._specs}
        return [change_of(spec, 0, rows, self._open(spec).time) for spec, rows in changes.items() if has_view(spec)]

    def close(self) -> None:
        """Closes the connection."""
        if self._follower is not None:
            self._follower.close()


def _records(fetched: Fetched) -> list[InputRecord]:
    headers = repeat(()) if fetched.headers is None else fetched.headers
    columns = zip(fetched.offsets, fetched.timestamps, fetched.keys, fetched.values, headers, strict=False)
    return [InputRecord(*record) for record in columns]
