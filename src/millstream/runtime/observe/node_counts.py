"""The numbers of records that each operator has received and sent, without a count for each record.

The runtime counts records where it handles many at once: those that sources and repartitions receive, those that are
written to topics, and those that are dropped. The other numbers follow from the topology: a child receives what its
parent sends, and an operator that gives one record for each record sends what it receives and does not drop. A number
that does not follow, such as that of the records between two filters, is None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.plan.node import Node
from millstream.plan.process import Process
from millstream.plan.stateless import Branch, BranchOutput, Late, Repartition
from millstream.stages import Topology

Counts = dict[str, int]


class _Relations(NamedTuple):
    """What the counts of an operator have to do with those of others.

    Attributes:
        name: The operator.
        senders: The operators whose records it receives, all of them; empty if that is not known.
        outputs: The outputs of a branch, which share its records; empty for other operators.
        one_to_one: It sends as many records as it receives and does not drop.
    """

    name: str
    senders: Sequence[str]
    outputs: Sequence[str]
    one_to_one: bool


class NodeCounts:
    """Derives the counts of the operators of a topology.

    Args:
        topology: The topology as it runs.
        letters: The topics of dead letters: records that an operator drops may be written there.
    """

    def __init__(self, topology: Topology, letters: Collection[str] = ()) -> None:
        self._nodes = topology.plan.nodes
        self._topics = {node.name: topology.topic_of(node) for node in self._nodes if isinstance(node, Repartition)}
        sinks = [node for node in self._nodes if node.role == "sink"]
        writers = [topic for node in sinks for topic in node.topics]
        is_fixed = all(node.topics for node in sinks)  # else any sink may write to any topic
        self._own = {topic for topic in writers if is_fixed and writers.count(topic) == 1 and topic not in letters}
        self._relations = _relations(self._nodes)

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
                    received[name] = written.get(self._topics[name], sent[name]) + lost
            elif node.role == "source":
                received[name] = taken.get(name, 0)
                sent[name] = max(0, received[name] - lost)
            elif node.role == "global":
                received[name] = sum(read.get(topic, 0) for topic in node.topics)
            elif node.role == "sink" and self._own.issuperset(node.topics) and node.topics:
                received[name] = sum(written.get(topic, 0) for topic in node.topics) + lost
        return received, sent

    def _derive(self, received: Counts, sent: Counts, drops: Mapping[str, int]) -> bool:
        """Derives what follows from the known counts; returns whether there was anything."""
        known = len(received) + len(sent)
        for name, senders, outputs, one_to_one in self._relations:
            lost = drops.get(name, 0)
            if senders:
                _balance(received, name, sent, senders)
            if outputs and not lost:
                _balance(received, name, received, outputs)
            if one_to_one and name in received:
                sent.setdefault(name, max(0, received[name] - lost))
            elif one_to_one and name in sent:
                received[name] = sent[name] + lost
        return len(received) + len(sent) > known


def _relations(nodes: Sequence[Node]) -> list[_Relations]:
    """The relations of all operators, downwards and then upwards: a count follows from one above or one below."""
    children: dict[str, list[Node]] = {}
    for node in nodes:
        for parent in node.parents:
            children.setdefault(parent.name, []).append(node)

    def chooses(node: Node) -> bool:  # a processor may send a record to one of its children
        return isinstance(node, Process) and len(children.get(node.name, ())) > 1

    relations = []
    for node in nodes:
        below = [child.name for child in children.get(node.name, ()) if isinstance(child, BranchOutput)]
        is_whole = isinstance(node, Branch) and len(below) == len(node.predicates) + node.default
        takes_all = not isinstance(node, BranchOutput | Late) and not any(map(chooses, node.parents))
        senders = [parent.name for parent in node.parents] if takes_all else []
        relations.append(_Relations(node.name, senders, below if is_whole else [], node.one_to_one))
    return relations + relations[::-1]


def _balance(wholes: Counts, whole: str, parts: Counts, names: Sequence[str]) -> None:
    """Completes an equation: a whole is the sum of its parts. One of them may be unknown."""
    unknown = [name for name in names if name not in parts]
    if not unknown:
        wholes.setdefault(whole, sum(parts[name] for name in names))
    elif len(unknown) == 1 and whole in wholes:
        parts[unknown[0]] = max(0, wholes[whole] - sum(parts[name] for name in names if name in parts))
