"""The interface of a converter, and the converter that uses a serde."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.connect.schema import ConnectSchema
from millstream.serde.api import Serde, SerdeContext

Convert: TypeAlias = Callable[[ConnectSchema | None, Any], bytes | None]
"""Returns the bytes of a value with a schema; None for None."""


class Converter(ABC):
    """Writes keys or values of source records as bytes."""

    @abstractmethod
    def bind(self, context: SerdeContext) -> Convert:
        """Returns the function that converts the keys or the values of one topic."""


class SerdeConverter(Converter):
    """Writes values with a serde, and no schemas of sources.

    Args:
        serde: The serde.
    """

    def __init__(self, serde: Serde[Any]) -> None:
        self._serde = serde

    def bind(self, context: SerdeContext) -> Convert:
        """Returns the function that serializes values."""
        serialize = self._serde.bind(context).serialize
        return lambda _schema, value: serialize(value)
