"""The functions of arrays and maps. They take values that are not null unless they say so."""

from __future__ import annotations

from typing import Any

from millstream.expr.values import distinct, item


def array(*elements: Any) -> list[Any]:
    """A list of the elements, nulls included."""
    return list(elements)


def element_at(container: Any, index: Any) -> Any:
    """As SQL subscripts: arrays count from 1, or from the end with a negative index; null if there is no element."""
    if not isinstance(container, list | tuple):
        return item(container, index)
    if index == 0:
        return None
    return item(container, index - 1) if index > 0 else item(container, index) if -index <= len(container) else None


def array_contains(elements: Any, element: Any) -> bool | None:
    """Whether an array has an element; null may be one of them. Null if there is no array."""
    return None if elements is None else any(not distinct(e, element) for e in elements)


def array_join(elements: Any, separator: str) -> str:
    """The texts of an array with a separator between them; nulls are left out."""
    return separator.join(e for e in elements if e is not None)


def map_keys(mapping: dict[Any, Any]) -> list[Any]:
    """The keys of a map, in its order."""
    return list(mapping.keys())


def map_values(mapping: dict[Any, Any]) -> list[Any]:
    """The values of a map, in the order of its keys."""
    return list(mapping.values())


def header(headers: Any, name: str) -> bytes | None:
    """The value of the last header of a name."""
    for found, value in reversed(headers):
        if found == name:
            return value  # type: ignore[no-any-return]
    return None
