"""The options of connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from millstream.connect import Transform


class ConnectorOptions(TypedDict, total=False):
    """Options of `App.connect`."""

    key: Any
    value: Any
    transforms: Sequence[Transform]
    on_error: Literal["fail", "continue"]
    partitions: int
    topic_config: Mapping[str, str]
    topics: Sequence[str] | str
    dead_letter_topic: str | None
    tasks: int
    offset_reset: Literal["earliest", "latest"]
