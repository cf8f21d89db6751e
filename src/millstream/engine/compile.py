"""Compiles the operators of a task to closures that call each other.

Decisions that do not depend on a record are made here, once: how many operators are below an operator, whether its
function takes the key, whether an operator below needs old values. Per record, only plain calls remain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.core.records import Headers
from millstream.engine.chunks import Bulk
from millstream.engine.context import Drop, Failure, Getter, TaskContext
from millstream.engine.contracts import checked_in_bulk
from millstream.errors import SerdeError
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.plan.stateless import BranchOutput, Late, Repartition
from millstream.plan.tables import ToStream
from millstream.plan.walk import history

Process: TypeAlias = Callable[..., None]
"""Processes a record of a stream (key, value, timestamp, headers), or a change of a table (key, new value, old value,
timestamp, headers, and whether it is the latest version).
"""
BulkOperator: TypeAlias = Callable[[Any, "Build"], Bulk | None]
Operator: TypeAlias = Callable[[Any, "Build"], "Process | tuple[Process, ...]"]

_STREAM = 4  # arguments for a record of a stream; a change of a table has more
OPERATORS: dict[type[Node], Operator] = {}
BULKS: dict[type[Node], BulkOperator] = {}
GETTERS: dict[type[Node], Callable[[Any, Build], Getter]] = {}


def operator(kind: type[Node]) -> Callable[[Operator], Operator]:
    """Registers the function that compiles an operator: it returns one process for each parent, or one for all."""

    def register(make: Operator) -> Operator:
        OPERATORS[kind] = make
        return make

    return register


def getter(kind: type[Node]) -> Callable[[Callable[[Any, Build], Getter]], Callable[[Any, Build], Getter]]:
    """Registers the function that returns the row look-up of a table."""

    def register(make: Callable[[Any, Build], Getter]) -> Callable[[Any, Build], Getter]:
        GETTERS[kind] = make
        return make

    return register


def in_bulk(kind: type[Node]) -> Callable[[BulkOperator], BulkOperator]:
    """Registers the function that returns the bulk form of an operator; it returns None where there is none."""

    def register(make: BulkOperator) -> BulkOperator:
        BULKS[kind] = make
        return make

    return register


class Build:
    """Compiles the operators of one task, from the last of the plan to the first."""

    def __init__(self, context: TaskContext) -> None:
        self.context = context
        self.facts = context.topology.facts
        self._children: dict[Node, list[tuple[Node, int]]] = {}
        self._processes: dict[Node, tuple[Process, ...]] = {}
        self._bulks: dict[Node, Bulk | None] = {}
        self._getters: dict[Node, Getter] = {}
        nodes = context.topology.plan.nodes
        written = {node for part in context.topology.parts for node in part.repartitions}
        for node in nodes:
            if isinstance(node, Repartition) and node not in written:
                continue  # the topology only reads its topic
            for port, parent in enumerate(node.parents):
                self._children.setdefault(parent, []).append((node, port))
        for node in reversed(nodes):
            made = OPERATORS[type(node)](node, self)
            ports = made if isinstance(made, tuple) else (made,)
            self._processes[node] = tuple(self._guarded(node, port) for port in ports)

    def _guarded(self, node: Node, process: Process) -> Process:
        """Handles rows that cannot be serialized, where stores serialize rows when they are put."""
        if all(spec.key.hashable and spec.value.immutable for spec in node.stores):
            return process
        fail = self.failure(node, getattr(getattr(node, "aggregation", None), "user_function", None))

        def guarded(*record: Any) -> None:
            try:
                process(*record)
            except SerdeError as error:
                fail(error, record[0], record[1], record[2 if len(record) == _STREAM else 3], ())

        return guarded

    def entry(self, node: Node) -> Process:
        """Returns the process of a node."""
        return self._processes[node][0]

    def forward(self, node: Node) -> Process:
        """Returns the process that forwards the results of a node to all operators below it, in order."""
        below = [self._port(c, p) for c, p in self._below(node) if not isinstance(c, Late | BranchOutput)]
        return fan_out(below, node.edge)

    def bulk(self, node: Node) -> Bulk | None:
        """Returns the bulk form of all operators below a node; None if they need single records."""
        below = self._below(node)
        if len(below) != 1 or self.context.raw:
            return None
        child = below[0][0]
        if child not in self._bulks:
            make = BULKS.get(type(child))
            self._bulks[child] = None if make is None else make(child, self)
        return self._bulks[child]

    def input_bulk(self, node: Node) -> Bulk | None:
        """Returns the bulk form of an input: its contract, and all operators below it."""
        if node not in self._bulks:
            self._bulks[node] = checked_in_bulk(node, self.context, self.bulk(node))
        return self._bulks[node]

    def only_stream(self, node: Node) -> Process | None:
        """Returns the process below the `ToStream` of a table, if the table has no other operators below it."""
        below = self._below(node)
        return self.forward(below[0][0]) if len(below) == 1 and isinstance(below[0][0], ToStream) else None

    def late(self, node: Node) -> Process | None:
        """Returns the process that forwards the late records of a node; None if no operator takes them."""
        below = [self._port(c, p) for c, p in self._below(node) if isinstance(c, Late)]
        return fan_out(below) if below else None

    def branches(self, node: Node, count: int) -> list[Process]:
        """Returns the process of each output of a branch."""
        outputs: list[Process] = [discard] * count
        for child, port in self._below(node):
            if isinstance(child, BranchOutput):
                outputs[child.index] = self._port(child, port)
        return outputs

    def named(self, node: Node) -> dict[str, Process]:
        """Returns the processes of the operators below a node, by name."""
        return {child.name: self._port(child, port) for child, port in self._below(node)}

    def getter(self, node: Node) -> Getter:
        """Returns the row look-up of a table."""
        if node not in self._getters:
            self._getters[node] = GETTERS[type(node)](node, self)
        return self._getters[node]

    def drop(self, node: Node, reason: str) -> Drop:
        """Returns the function that counts a dropped record."""
        return self.context.drop(node, reason)

    def failure(self, node: Node, function: Function | None = None) -> Failure:
        """Returns the error handler of an operator."""
        return self.context.failure(node, function)

    def versioned(self, node: Node) -> bool:
        """Whether changes of a table may be of an older version."""
        return history(node) is not None

    def _below(self, node: Node) -> list[tuple[Node, int]]:
        return self._children.get(node, [])

    def _port(self, node: Node, port: int) -> Process:
        processes = self._processes[node]
        return processes[port if len(processes) > 1 else 0]


def discard(*_record: Any) -> None:
    """Discards records that have no downstream operator."""


def fan_out(below: list[Process], edge: Edge = "stream") -> Process:
    """Returns a process that calls several processes in order; a single process is returned as it is."""
    if not below:
        return discard
    if len(below) == 1:
        return below[0]
    processes = tuple(below)
    if edge == "table":

        def forward_change(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
            for process in processes:
                process(key, new, old, timestamp, headers, latest)

        return forward_change

    def forward_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for process in processes:
            process(key, value, timestamp, headers)

    return forward_record
