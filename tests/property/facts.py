"""How far the order of the results of a generated topology is promised.

`Facts` tell which results depend on the order between keys:

- *timed*: results depend on stream time. Each task has its own, so they depend on the keys that share a task.
- *punctuated*: a punctuator emits. It runs by the stream time of its sub-topology; the test driver has one stream time
  for all sub-topologies.
- *scattered*: one input record may give several records. Behind an exchange these are *shuffled*: they have one
  position, so those with different keys are taken by partition and task, not in the order in which they were emitted.
- *disordered*: records of one position decide a result together, and their order is not that of the driver. It happens
  where shuffled records pass another exchange, or set a stream time; and where the records of one input meet again that
  took different ways, at least one of them through an exchange.
- *cyclic*: behind a foreign-key join, or where an internal topic inside a cycle and another input decide a result
  together. The order inside a cycle of internal topics is not promised.
- *repeated*: a table is joined with one that has the same origin. Each change reaches the join on two ways, and the
  updates that it emits depend on which way is first. The last row is the same, but an aggregation that adds new values
  and subtracts old ones keeps what was added twice, as in Kafka Streams.
- *settled*: the rows are, in the end, the same for any order of the records of one position: a count, a sum, or a join
  of tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What is known of the records of a node; see the module.

    Attributes:
        inputs: The topics that they come from without another exchange. Internal ones have a number.
        rekeyed: The next operator with state repartitions.
        moved: The key was changed since the last exchange, so several tasks may emit records of one key.
        merged: Records of several topics were merged by operators without state, which do not order them.
    """

    inputs: frozenset[str]
    rekeyed: bool = False
    moved: bool = False
    merged: bool = False
    timed: bool = False
    punctuated: bool = False
    scattered: bool = False
    shuffled: bool = False
    disordered: bool = False
    cyclic: bool = False
    repeated: bool = False
    settled: bool = True

    def but(self, **changes: Any) -> Facts:
        """Returns the facts with some changes."""
        return replace(self, **changes)

    def stateful(self) -> Facts:
        """Behind an operator with state, which runs in a task."""
        return self.but(merged=False)

    def in_order(self) -> Facts:
        """Behind an operator whose result depends on the order of the records of a key."""
        return self.stateful().but(settled=self.settled and not (self.disordered or self.cyclic))

    def clocked(self) -> Facts:
        """Behind an operator with a stream clock, which may emit several rows at once."""
        return self.but(timed=True, scattered=True, disordered=self.disordered or self.shuffled).in_order()
