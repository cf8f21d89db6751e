"""Adds processors to the topology."""

from __future__ import annotations

from typing import Any

from millstream.core.asynchronous import ASYNC_HINT, async_method, is_async
from millstream.core.callsite import caller, warn_user
from millstream.dsl.internals import NodeOutput
from millstream.errors import TopologyError, TopologyWarning
from millstream.plan.functions import Function, arity, describe_callable
from millstream.plan.process import Process

_CALLED = ("process", "init", "close")
"""The methods of a processor that the engine calls."""


def check_processor(call: str, output: NodeOutput, supplier: Any, stores: tuple[str, ...]) -> None:
    """Refuses a supplier that cannot return processors, and warns if the records are not partitioned as the stores.

    Args:
        call: Name of the operator, for messages.
        output: The input of the processor.
        supplier: A processor class, or a function that returns a processor.
        stores: Names of the stores that the processor uses.
    """
    if not callable(supplier):
        raise TopologyError(
            f"{call}: expected a processor class or a function that returns a processor, got {supplier!r}",
            hint="pass the class, not an instance: every task needs its own processor",
        )
    method = async_method(supplier, _CALLED)
    if method is not None or is_async(supplier):
        function = describe_callable(supplier) if method is None else f"{describe_callable(supplier)}: {method}()"
        raise TopologyError(f"{call}: {function} is asynchronous", hint=ASYNC_HINT)
    arguments = arity(supplier)
    if arguments is not None and arguments[0] > 0:
        raise TopologyError(
            f"{call}: {describe_callable(supplier)} takes {arguments[0]} argument{'s' if arguments[0] > 1 else ''}",
            hint="pass a Processor class, or a function without arguments that returns a processor; for a function of "
            "the record use map, map_values or foreach",
        )
    for store in stores:
        output.builder.plan().store(store)
    if stores and output.rekeyed:
        warn_user(
            f"{call}: the key of these records may have changed, and {stores[0]!r} is partitioned by key, so a record "
            "may be in a task that does not have the rows of its key.\n"
            f"  hint: write .repartition().{call}(…), so that each record is in the task that has the rows of its key",
            TopologyWarning,
        )


def add_processor(
    output: NodeOutput,
    supplier: Any,
    stores: tuple[str, ...],
    label: str,
    *,
    keeps_key: bool,
    function: Function | None = None,
) -> Process:
    """Adds a processor behind an output."""
    node = Process(
        name=label,
        at=caller(),
        parent=output.node,
        supplier=supplier,
        uses=tuple(stores),
        keeps_key=keeps_key,
        function=function,
    )
    return output.builder.add(node)
