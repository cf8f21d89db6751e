"""Where records come in: streams, tables and global tables."""

from __future__ import annotations

from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.context import Getter
from millstream.engine.table_stores import table_store, value_check
from millstream.errors import SerdeError
from millstream.plan import sources as plan
from millstream.plan.process import Store


@operator(plan.Source)
def source(node: plan.Source, build: Build) -> Process:
    """Passes records on as they are."""
    return build.forward(node)


@operator(Store)
def store(node: Store, build: Build) -> Process:
    """A store of its own has no records."""
    build.context.store(node.store)
    return build.forward(node)


@operator(plan.ToTable)
def to_table(node: plan.ToTable, build: Build) -> Process:
    """Turns each record into a change of its key's row."""
    forward, drop = build.forward(node), build.drop(node, "null key")
    if node not in build.facts.kept:

        def pass_on(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop(key, value, timestamp, headers)
            else:
                forward(key, value, None, timestamp, headers, True)

        return pass_on

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


@getter(plan.ToTable)
def table_rows(node: plan.ToTable, build: Build) -> Getter:
    """Looks rows up in the table's store."""
    rows: Getter = build.context.store(node.store).get
    return rows


@operator(plan.GlobalTable)
def global_table(node: plan.GlobalTable, build: Build) -> Process:
    """Keeps the rows of a global table; nothing is below it."""
    rows = table_store(build.context.store(node.store))
    drop = build.drop(node, "null key")

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop(key, value, timestamp, headers)
        else:
            rows.put(key, value, timestamp)

    return process


@getter(plan.GlobalTable)
def global_rows(node: plan.GlobalTable, build: Build) -> Getter:
    """Looks rows up in the global table's store."""
    rows: Getter = build.context.store(node.store).get
    return rows
