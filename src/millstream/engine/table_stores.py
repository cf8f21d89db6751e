"""One interface to the store of a table, plain or versioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process
from millstream.engine.context import Getter
from millstream.state.api import LATEST, NOT_PUT
from millstream.state.spec import StoreSpec


def value_check(spec: StoreSpec) -> tuple[object, Callable[[Any], object]]:
    """Returns a type, and a check for values of all other types: it raises if the store cannot serialize the value.

    A store that keeps Python objects serializes them only for its changelog, after the put. So operators check a value
    before they put it. A store that keeps bytes raises by itself; its check accepts every value.
    """
    if spec.value.immutable:
        return spec.value.python_type, spec.value.serialize
    return None, lambda _value: None


class TableStore(NamedTuple):
    """The rows of a table.

    Attributes:
        get: Returns the latest row of a key as (value, timestamp), or None.
        put: Puts key, value and timestamp. Returns True if this is now the latest version, False if it is an older one,
            None if it is older than the history and was not put.
    """

    get: Callable[[Any], tuple[Any, int] | None]
    put: Callable[[Any, Any, int], bool | None]


def table_store(store: Any) -> TableStore:
    """Returns the rows of a key-value or versioned store."""
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


def stored_rows(node: Any, build: Build) -> Getter:
    """Returns the row look-up of a table in its own store."""
    rows: Getter = build.context.store(node.store).get
    return rows


def store_changes(node: Any, build: Build) -> Process:
    """Returns the process that stores the changes of a table, if it has a store, and forwards them."""
    forward = build.forward(node)
    if node.store is None:
        return forward
    put = table_store(build.context.store(node.store)).put
    expired = build.drop(node, "older than the history")

    def put_and_forward(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        latest = put(key, new, timestamp)
        if latest is None:
            expired(key, new, timestamp, headers)
        else:
            forward(key, new, old, timestamp, headers, latest)

    return put_and_forward
