"""The store of a table, plain or versioned, behind one face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.state.api import LATEST, NOT_PUT
from millstream.state.spec import StoreSpec


def value_check(spec: StoreSpec) -> tuple[object, Callable[[Any], object]]:
    """How to find, before it is put, a value that a store could not write to its changelog.

    A store that keeps objects takes them as they are, so the type is looked at: a value whose type is not the first of
    what this returns is given to the second, which raises. A store that keeps bytes finds out by itself.
    """
    if spec.value.immutable:
        return spec.value.python_type, spec.value.serialize
    return None, lambda _value: None


class TableStore(NamedTuple):
    """Rows of a table.

    Attributes:
        get: Of a key, the latest row as (value, timestamp), or None.
        put: Of key, value and timestamp; gives True if this is now the latest version, False if it is an older one,
            None if it was too old to be kept.
    """

    get: Callable[[Any], tuple[Any, int] | None]
    put: Callable[[Any, Any, int], bool | None]


def table_store(store: Any) -> TableStore:
    """Puts the face of a table before a key-value or versioned store."""
    put = store.put
    if store.spec.kind == "versioned":

        def put_version(key: Any, value: Any, timestamp: int) -> bool | None:
            valid_to = put(key, value, timestamp)
            return None if valid_to == NOT_PUT else valid_to == LATEST

        return TableStore(store.get, put_version)

    def put_row(key: Any, value: Any, timestamp: int) -> bool:
        put(key, None if value is None else (value, timestamp))
        return True

    return TableStore(store.get, put_row)
