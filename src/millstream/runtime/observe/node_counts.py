"""The numbers of records that each operator has received and sent, without a count for each record.

The runtime counts records where it handles many at once: those that sources and repartitions receive, those that are
written to topics, and those that are dropped. The other numbers follow from the topology: a child receives what its
parent sends, and an operator that gives one record for each record sends what it receives and does not drop. A number
that does not follow, such as that of the records between two filters, is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from millstream.plan.node import Node
from millstream.plan.process import Process
from millstream.plan.stateless import Branch, BranchOutput, Late, Repartition
from millstream.stages import Topology

Counts = dict[str, int]


class NodeCounts:
    """Derives the counts of the operators of a topology.

    Args:
        topology: The topology as it runs.
    """

    def __init__(self, topology: Topology) -> None:
        self._nodes = topology.plan.nodes
        self._topic_of: Callable[[Repartition], str] = topology.topic_of
        self._children: dict[str, list[Node]] = {}
        for node in self._nodes:
            for parent in node.parents:
                self._children.setdefault(parent.name, []).append(node)
        writers = [topic for node in self._nodes if node.role == "sink" for topic in node.topics]
        self._own_sinks = {topic for topic in writers if writers.count(topic) == 1}

    def read(
        self,
        taken: Mapping[str, int],
        read: Mapping[str, int],
        written: Mapping[str, int],
        dropped: Mapping[tuple[str, str], int],
    ) -> dict[str, dict[str, Any]]:
        """Returns, by operator, the numbers of records received (``in``), sent (``out``) and ``dropped`` by reason.

        Args:
            taken: The records received, by source and repartition.
            read: The records read, by topic.
            written: The records written, by topic.
            dropped: The records dropped, by operator and reason.
        """
        reasons: dict[str, dict[str, int]] = {}
        for (operator, reason), count in dropped.items():
            reasons.setdefault(operator, {})[reason] = count
        drops = {name: sum(counts.values()) for name, counts in reasons.items()}
        received, sent = self._counted(taken, read, written, drops)
        while self._derive(received, sent, drops):
            pass
        return {
            node.name: {
                "in": received.get(node.name),
                "out": 0 if node.edge == "none" else sent.get(node.name),
                "dropped": reasons.get(node.name, {}),
            }
            for node in self._nodes
        }

    def _chooses(self, node: Node) -> bool:
        """Whether an operator may send a record to some of its children only: a processor names them."""
        return isinstance(node, Process) and len(self._children.get(node.name, [])) > 1

    def _counted(
        self, taken: Mapping[str, int], read: Mapping[str, int], written: Mapping[str, int], drops: Mapping[str, int]
    ) -> tuple[Counts, Counts]:
        received: Counts = {}
        sent: Counts = {}
        for node in self._nodes:
            name, lost = node.name, drops.get(node.name, 0)
            if isinstance(node, Repartition):
                sent[name] = taken.get(name, 0)
                if not node.changes:  # a change of a table may be written as two records
                    received[name] = written.get(self._topic_of(node), sent[name]) + lost
            elif node.role == "source":
                received[name] = taken.get(name, 0)
                sent[name] = max(0, received[name] - lost)
            elif node.role == "global":
                received[name] = sum(read.get(topic, 0) for topic in node.topics)
            elif node.role == "sink" and node.topics and self._own_sinks.issuperset(node.topics):
                received[name] = sum(written.get(topic, 0) for topic in node.topics) + lost
        return received, sent

    def _derive(self, received: Counts, sent: Counts, drops: Mapping[str, int]) -> bool:
        """Derives what follows from the known counts; returns whether there was anything."""
        known = len(received) + len(sent)
        for node in self._nodes:
            name, lost = node.name, drops.get(node.name, 0)
            if not isinstance(node, BranchOutput | Late) and not any(map(self._chooses, node.parents)):
                _balance(received, name, sent, [parent.name for parent in node.parents])
            if isinstance(node, Branch):
                outputs = [child.name for child in self._children.get(name, []) if isinstance(child, BranchOutput)]
                if len(outputs) == len(node.predicates) + node.default and not lost:
                    _balance(received, name, received, outputs)
            if node.one_to_one and name in received:
                sent.setdefault(name, max(0, received[name] - lost))
            elif node.one_to_one and name in sent:
                received[name] = sent[name] + lost
        return len(received) + len(sent) > known


def _balance(wholes: Counts, whole: str, parts: Counts, names: Iterable[str]) -> None:
    """Completes an equation: a whole is the sum of its parts. One of them may be unknown."""
    names = list(names)
    unknown = [name for name in names if name not in parts]
    if not names:
        return
    if not unknown:
        wholes.setdefault(whole, sum(parts[name] for name in names))
    elif len(set(unknown)) == len(unknown) == 1 and whole in wholes:
        parts[unknown[0]] = max(0, wholes[whole] - sum(parts[name] for name in names if name in parts))
