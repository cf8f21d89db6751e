"""The Processor API: the user's own operators, and the stores they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from millstream.core.frozen import Frozen
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node, Role, WhenMaterialized
from millstream.serde import Serde, SerdeContext
from millstream.state.spec import StoreSpec


class SerdeUser(Frozen):
    """A supplier whose processors serialize keys by themselves.

    Attributes:
        key: The serde of the keys.
    """

    key: Serde[Any]

    def bind_key(self, context: SerdeContext) -> Any:
        """Returns the supplier with its serde bound."""
        raise NotImplementedError


class Store(Node, kw_only=True):
    """A store that the user added for processors."""

    store: StoreSpec

    edge: ClassVar[Edge] = "none"
    role: ClassVar[Role] = "hidden"
    materialized: ClassVar[WhenMaterialized] = "if_used"


class Process(Node, kw_only=True):
    """A user's processor.

    Attributes:
        supplier: Creates a processor for each task.
        uses: The names of the stores that the processor may use.
        keeps_key: The processor cannot change the key.
        function: A function of the user's that a built-in processor calls.
    """

    parent: Node
    supplier: Callable[[], Any]
    uses: tuple[str, ...] = ()
    keeps_key: bool = False
    function: Function | None = None

    key_options: ClassVar[tuple[str, ...]] = ("supplier",)

    @property
    def changes_key(self) -> bool:  # type: ignore[override]
        """Whether records with equal output keys may be in different partitions."""
        return not self.keeps_key

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The stores that the processor may use."""
        return self.uses
