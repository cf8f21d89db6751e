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
    """Refuses a supplier that cannot make processors, and warns of stores that are partitioned by another key.

    Args:
        call: The operator, for messages.
        output: The records that the processor gets.
        supplier: A processor class, or a function that makes a processor.
        stores: Names of the stores that the processor uses.
    """
    if not callable(supplier):
        raise TopologyError(
            f"{call}: expected a processor class or a function that makes one, got {supplier!r}",
            hint="pass the class itself, not an instance: every task needs a processor of its own",
        )
    method = async_method(supplier, _CALLED)
    if method is not None or is_async(supplier):
        named = describe_callable(supplier) if method is None else f"{describe_callable(supplier)}: {method}()"
        raise TopologyError(f"{call}: {named} is asynchronous", hint=ASYNC_HINT)
    needed = arity(supplier)
    if needed is not None and needed[0] > 0:
        raise TopologyError(
            f"{call}: {describe_callable(supplier)} takes {needed[0]} argument{'s' if needed[0] > 1 else ''}",
            hint="pass a Processor class, or a function without arguments that makes one; for a function of "
            "the record use map, map_values or foreach",
        )
    for store in stores:
        output.builder.plan().store(store)
    if stores and output.rekeyed:
        warn_user(
            f"{call}: the key of these records may have changed, and {stores[0]!r} is partitioned by key: a record "
            "reads the rows of the task that it happens to be in, which may not be those of its key.\n"
            f"  hint: write .repartition().{call}(…), so that records of a key are where its rows are",
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
    """Adds a processor that reads an output."""
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
