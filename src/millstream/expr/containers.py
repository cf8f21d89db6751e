"""Functions of arrays and maps. Arguments are not null unless a docstring mentions null."""

from __future__ import annotations

from typing import Any

from millstream.expr.values import distinct, item


def array(*elements: Any) -> list[Any]:
    """Returns a list of the elements, nulls included."""
    return list(elements)


def element_at(container: Any, index: Any) -> Any:
    """Returns an element with SQL's index: from 1, or from the end if negative; null if there is no element."""
    if not isinstance(container, list | tuple):
        return item(container, index)
    if index == 0:
        return None
    return item(container, index - 1) if index > 0 else item(container, index) if -index <= len(container) else None


def array_contains(elements: Any, element: Any) -> bool | None:
    """Whether an array contains an element, which may be null. Null if the array is null."""
    return None if elements is None else any(not distinct(e, element) for e in elements)


def array_join(elements: Any, separator: str) -> str:
    """Joins the texts of an array with a separator; nulls are left out."""
    return separator.join(e for e in elements if e is not None)


def map_keys(mapping: dict[Any, Any]) -> list[Any]:
    """Returns the keys of a map, in its order."""
    return list(mapping.keys())


def map_values(mapping: dict[Any, Any]) -> list[Any]:
    """Returns the values of a map, in the order of its keys."""
    return list(mapping.values())


def header(headers: Any, name: str) -> bytes | None:
    """Returns the value of the last header of a name; null if there is none."""
    for header_name, value in reversed(headers):
        if header_name == name:
            return value  # type: ignore[no-any-return]
    return None
