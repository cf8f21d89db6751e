"""The Processor API: the user's own operators, and the stores they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.state.spec import StoreSpec


class Store(Node, kw_only=True):
    """A store that the user added for processors."""

    store: StoreSpec

    edge: ClassVar[Edge] = "none"


class Process(Node, kw_only=True):
    """A user's processor.

    Attributes:
        supplier: Makes a processor for each task.
        uses: The names of the stores that it may use.
        keeps_key: The processor cannot change the key.
        function: A function of the user's that a processor of Millstream's own calls.
    """

    parent: Node
    supplier: Callable[[], Any]
    uses: tuple[str, ...] = ()
    keeps_key: bool = False
    function: Function | None = None

    @property
    def changes_key(self) -> bool:  # type: ignore[override]
        """Whether equal keys may be in different tasks behind it."""
        return not self.keeps_key

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The stores that the processor is connected with."""
        return self.uses
