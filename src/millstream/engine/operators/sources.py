"""Sources: streams, tables and global tables."""

from __future__ import annotations

from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.contracts import checked
from millstream.engine.table_stores import stored_rows, table_store, value_check
from millstream.errors import SerdeError
from millstream.plan import sources as plan
from millstream.plan.process import Store


@operator(plan.Source)
def source(node: plan.Source, build: Build) -> Process:
    """Forwards records unchanged; those that violate its contract are not forwarded."""
    return checked(node, build.context, build.forward(node))


@operator(Store)
def store(node: Store, build: Build) -> Process:
    """Opens a store that was added to the application. It has no records."""
    build.context.store(node.store)
    return build.forward(node)


@operator(plan.ToTable)
def to_table(node: plan.ToTable, build: Build) -> Process:
    """Converts each record into a change of the row of its key."""
    forward, drop = build.forward(node), build.drop(node, "null key")
    if node not in build.facts.kept:

        def forward_change(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop(key, value, timestamp, headers)
            else:
                forward(key, value, None, timestamp, headers, True)

        return forward_change

    rows = table_store(build.context.store(node.store))
    get, put = rows.get, rows.put
    expired, fail = build.drop(node, "older than the history"), build.failure(node)
    kind, check = value_check(node.store)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop(key, value, timestamp, headers)
            return
        if type(value) is not kind and value is not None:
            try:
                check(value)
            except SerdeError as error:
                fail(error, key, value, timestamp, headers)
                return
        row = get(key)
        latest = put(key, value, timestamp)
        if latest is None:
            expired(key, value, timestamp, headers)
            return
        forward(key, value, None if row is None else row[0], timestamp, headers, latest)

    return process


getter(plan.ToTable)(stored_rows)


@operator(plan.GlobalTable)
def global_table(node: plan.GlobalTable, build: Build) -> Process:
    """Stores the rows of a global table. It has no operators below it."""
    rows = table_store(build.context.store(node.store))
    drop = build.drop(node, "null key")

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop(key, value, timestamp, headers)
        else:
            rows.put(key, value, timestamp)

    return checked(node, build.context, process)


getter(plan.GlobalTable)(stored_rows)
