"""The interface of a converter, and the converter that uses a serde."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.connect.schema import ConnectSchema
from millstream.serde.api import Serde, SerdeContext

Convert: TypeAlias = Callable[[ConnectSchema | None, Any], bytes | None]
"""Returns the bytes of a value with a schema; None for None."""


Form: TypeAlias = Callable[[Any], Any]
"""Gives a value the form that a converter writes."""


def form_of_items(schema: ConnectSchema, form_of: Callable[[ConnectSchema], Form | None]) -> Form | None:
    """Returns the function for the items of an array, or the values of a map; None if they have their form already."""
    items = None if schema.items is None else form_of(schema.items)
    if items is None:
        return None
    if schema.type == "map":
        return lambda value: None if value is None else {key: items(item) for key, item in value.items()}
    return lambda value: None if value is None else [items(item) for item in value]


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
