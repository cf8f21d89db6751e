"""Compiles the operators of a task to closures that call each other.

Everything that can be decided about an operator is decided here, once: how many operators are below it, whether its
function takes the key, whether anybody wants its old values. What remains for each record are plain calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.core.records import Headers
from millstream.engine.chunks import Bulk
from millstream.engine.context import Drop, Failure, Getter, TaskContext
from millstream.errors import SerdeError
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.plan.stateless import BranchOutput, Late
from millstream.plan.tables import ToStream
from millstream.plan.walk import history

Process: TypeAlias = Callable[..., None]
BulkOperator: TypeAlias = Callable[[Any, "Build"], Bulk | None]
Operator: TypeAlias = Callable[[Any, "Build"], "Process | tuple[Process, ...]"]

_STREAM = 4  # parts of a record of a stream; a change of a table has more
OPERATORS: dict[type[Node], Operator] = {}
BULKS: dict[type[Node], BulkOperator] = {}
GETTERS: dict[type[Node], Callable[[Any, Build], Getter]] = {}


def operator(kind: type[Node]) -> Callable[[Operator], Operator]:
    """Registers the function that makes an operator: it returns one process for each parent, or just one."""

    def register(make: Operator) -> Operator:
        OPERATORS[kind] = make
        return make

    return register


def getter(kind: type[Node]) -> Callable[[Callable[[Any, Build], Getter]], Callable[[Any, Build], Getter]]:
    """Registers the function that makes the look-up of a table's rows."""

    def register(make: Callable[[Any, Build], Getter]) -> Callable[[Any, Build], Getter]:
        GETTERS[kind] = make
        return make

    return register


def in_bulk(kind: type[Node]) -> Callable[[BulkOperator], BulkOperator]:
    """Registers the function that makes what an operator does with many records at once; None where it cannot."""

    def register(make: BulkOperator) -> BulkOperator:
        BULKS[kind] = make
        return make

    return register


class Build:
    """The operators of one task, as they are being compiled, from the last of the plan to the first."""

    def __init__(self, context: TaskContext) -> None:
        self.context = context
        self.facts = context.topology.facts
        self._children: dict[Node, list[tuple[Node, int]]] = {}
        self._processes: dict[Node, tuple[Process, ...]] = {}
        self._bulks: dict[Node, Bulk | None] = {}
        self._getters: dict[Node, Getter] = {}
        nodes = context.topology.plan.nodes
        for node in nodes:
            for port, parent in enumerate(node.parents):
                self._children.setdefault(parent, []).append((node, port))
        for node in reversed(nodes):
            made = OPERATORS[type(node)](node, self)
            ports = made if isinstance(made, tuple) else (made,)
            self._processes[node] = tuple(self._guarded(node, port) for port in ports)

    def _guarded(self, node: Node, process: Process) -> Process:
        """Handles what a store cannot keep, where stores turn rows into bytes when they are put."""
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
        """The process that takes what comes in at a node."""
        return self._processes[node][0]

    def forward(self, node: Node) -> Process:
        """Passes on what a node gives to all operators below it, in their order."""
        below = [self._port(c, p) for c, p in self._below(node) if not isinstance(c, Late | BranchOutput)]
        return fan_out(below, node.edge)

    def bulk(self, node: Node) -> Bulk | None:
        """What the operator below a node, and all below that, do with a chunk; None if they want records singly."""
        below = self._below(node)
        if len(below) != 1 or self.context.raw:
            return None
        child = below[0][0]
        if child not in self._bulks:
            make = BULKS.get(type(child))
            self._bulks[child] = None if make is None else make(child, self)
        return self._bulks[child]

    def only_stream(self, node: Node) -> Process | None:
        """Passes on what a table gives to what is below its stream, if there is nothing else below the table."""
        below = self._below(node)
        return self.forward(below[0][0]) if len(below) == 1 and isinstance(below[0][0], ToStream) else None

    def late(self, node: Node) -> Process | None:
        """Passes on the late records of a node; None if nobody wants them."""
        found = [self._port(c, p) for c, p in self._below(node) if isinstance(c, Late)]
        return fan_out(found) if found else None

    def branches(self, node: Node, count: int) -> list[Process]:
        """Passes on what a branch gives to each of its outputs."""
        outputs: list[Process] = [nowhere] * count
        for child, port in self._below(node):
            if isinstance(child, BranchOutput):
                outputs[child.index] = self._port(child, port)
        return outputs

    def named(self, node: Node) -> dict[str, Process]:
        """The operators below a node, by name."""
        return {child.name: self._port(child, port) for child, port in self._below(node)}

    def getter(self, node: Node) -> Getter:
        """The look-up of a table's rows."""
        if node not in self._getters:
            self._getters[node] = GETTERS[type(node)](node, self)
        return self._getters[node]

    def drop(self, node: Node, reason: str) -> Drop:
        """Counts a dropped record."""
        return self.context.drop(node, reason)

    def failure(self, node: Node, function: Function | None = None) -> Failure:
        """Handles an error in an operator."""
        return self.context.failure(node, function)

    def versioned(self, node: Node) -> bool:
        """Whether a table's changes may be of an older version."""
        return history(node) is not None

    def _below(self, node: Node) -> list[tuple[Node, int]]:
        return self._children.get(node, [])

    def _port(self, node: Node, port: int) -> Process:
        processes = self._processes[node]
        return processes[port if len(processes) > 1 else 0]


def nowhere(*_record: Any) -> None:
    """Takes what nobody wants."""


def fan_out(below: list[Process], edge: Edge = "stream") -> Process:
    """Calls several processes in order; one is called directly."""
    if not below:
        return nowhere
    if len(below) == 1:
        return below[0]
    every = tuple(below)
    if edge == "table":

        def each_change(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
            for process in every:
                process(key, new, old, timestamp, headers, latest)

        return each_change

    def each_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for process in every:
            process(key, value, timestamp, headers)

    return each_record
