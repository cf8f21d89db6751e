"""The state of tasks outside their stores: cells of operators, waiting records and input offsets.

It is part of the manifest of the tasks' state, so it commits with the stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from millstream.errors import StateError
from millstream.plan.sources import GlobalTable
from millstream.runtime.messages import InputSlice
from millstream.runtime.order.positions import LEAST, Position
from millstream.stages import Topology
from millstream.stages.task_id import TaskId

_FORMAT = 2
_STREAM_TIME = "task.stream-time"

Cells = dict[str, Any]


class TaskMemory(msgspec.Struct, array_like=True):
    """The state of one task outside its stores.

    Attributes:
        cells: The cells of its operators, by name.
        waiting: The records that it has received and not yet taken.
        offsets: (topic, partition, offset): the next offset to take of each input that has waiting records. All other
            inputs have been taken up to the committed offsets.
        name: Its name, see `task_name`.
        position: The order position of the last record that it has taken.
    """

    cells: Cells = {}
    waiting: list[InputSlice] = []
    offsets: list[tuple[str, int, int]] = []
    name: str = ""
    position: Position = LEAST


class _Stored(msgspec.Struct, array_like=True):
    format: int
    tasks: dict[str, TaskMemory]


def encode_memory(tasks: Mapping[TaskId, TaskMemory]) -> bytes:
    """Encodes the memory of the tasks that share one state."""
    return msgspec.msgpack.encode(_Stored(_FORMAT, {str(task): memory for task, memory in tasks.items()}))


def decode_memory(data: bytes) -> list[TaskMemory]:
    """Decodes the memory of tasks.

    Task ids are not returned: a changed topology may have other sub-topology numbers, so the caller assigns cells by
    operator and records by topic.

    Raises:
        StateError: The memory was written in another format.
    """
    try:
        stored = msgspec.msgpack.decode(data, type=_Stored)
    except msgspec.ValidationError:
        stored = _Stored(0, {})
    if stored.format != _FORMAT:
        raise StateError(
            f"the state of tasks was written in format {stored.format}, and this version reads format {_FORMAT}",
            hint="reset the application with 'millstream reset', or run the version that wrote the state",
        )
    return list(stored.tasks.values())


def encode_cells(cells: Iterable[Cells]) -> bytes:
    """Encodes the cells of the tasks of one number, for a later migration."""
    return msgspec.msgpack.encode(merged(cells))


def decode_cells(data: bytes) -> Cells:
    """Decodes cells that `encode_cells` has encoded."""
    cells: Cells = msgspec.msgpack.decode(data, type=Cells)
    return cells


def merged(cells: Iterable[Cells]) -> Cells:
    """The cells of several tasks as one mapping. Their names begin with operator names, which are unique."""
    return {name: value for own in cells for name, value in own.items()}


def saved_cells(cells: Cells, name: str) -> Cells:
    """The cells of an engine task as they are stored: stream time under the task's name, without times of stores.

    Stores record their times themselves.

    Args:
        cells: As the engine task gives them.
        name: Of the task; see `task_name`.
    """
    saved = {cell: value for cell, value in cells.items() if not cell.startswith("store.")}
    saved[f"{_STREAM_TIME}.{name}"] = saved.pop(_STREAM_TIME)
    return saved


def cells_of(cells: Cells, topology: Topology, topologies: Sequence[Topology]) -> Cells:
    """The cells of one task among those that were stored.

    A task must not get cells of another one: it would save them again with their old values.

    Args:
        cells: The stored cells of all tasks of a number.
        topology: The task's sub-topology.
        topologies: The sub-topologies of all tasks.
    """
    nodes = {node.name for every in topologies for node in every.plan.nodes}
    own = {node.name for node in topology.plan.nodes}
    taken = {name: value for name, value in cells.items() if _node_of(name, nodes) in own}
    taken[_STREAM_TIME] = cells.get(f"{_STREAM_TIME}.{task_name(topology)}", -1)
    return taken


def with_stream_times(cells: Cells, former: Sequence[Topology], current: Sequence[Topology]) -> Cells:
    """Stored cells with the stream times of tasks of another placement: each has that of the task with its operators.

    Args:
        cells: The stored cells of all tasks of a number.
        former: The sub-topologies of the tasks that stored them.
        current: The sub-topologies of the tasks that will use them.
    """
    times = {f"{_STREAM_TIME}.{task_name(topology)}": topology for topology in former}
    found = {name: value for name, value in cells.items() if not name.startswith(f"{_STREAM_TIME}.")}
    for topology in current:
        own = _main_operators(topology)
        same = [cells.get(name, -1) for name, other in times.items() if own & _main_operators(other)]
        found[f"{_STREAM_TIME}.{task_name(topology)}"] = max(same, default=-1)
    return found


def _main_operators(topology: Topology) -> set[str]:
    """The operators that only one task of a number has: those with stores, if there are any."""
    nodes = [node for node in topology.plan.nodes if not isinstance(node, GlobalTable)]
    stateful = {node.name for node in nodes if topology.facts.stores_of(node)}
    return stateful or {node.name for node in nodes}


def task_name(topology: Topology) -> str:
    """A name for the tasks of a sub-topology that does not depend on its number: that of its first operator.

    A part that was split off has its first operator in common with the part that is left. Its exchanges are its own.
    """
    if topology.parts and topology.parts[0].is_split_off:
        return f"{topology.parts[0].repartitions[0].name}-writer"
    return next((node.name for node in topology.plan.nodes if not isinstance(node, GlobalTable)), "")


def _node_of(cell: str, nodes: set[str]) -> str | None:
    """The operator of a cell: the longest operator name that the name of the cell begins with."""
    while "." in cell:
        cell = cell.rpartition(".")[0]
        if cell in nodes:
            return cell
    return None
