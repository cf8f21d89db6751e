"""Random bounded queries give the rows of DuckDB for the same data; `random_queries` has the differences."""

from __future__ import annotations

import json
import math
import os
import random
from typing import Any, NamedTuple

import duckdb
import pytest
from tests.sql.random_queries import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    DUCKDB_TYPES,
    INT,
    STRING,
    Column,
    Expression,
    Generator,
    wrapped,
)

from millstream import App, TestDriver

SOURCES = """
    CREATE STREAM events (id INT KEY, a INT, b INT, n BIGINT, d DOUBLE, s STRING)
        WITH (kafka_topic='events', value_format='JSON');
    CREATE TABLE people (id INT PRIMARY KEY, town INT, x INT, e DOUBLE, name STRING)
        WITH (kafka_topic='people', value_format='JSON');
    CREATE TABLE towns (id INT PRIMARY KEY, y INT, label STRING) WITH (kafka_topic='towns', value_format='JSON');
"""
COLUMNS = {
    "events": {"a": INT, "b": INT, "n": BIGINT, "d": DOUBLE, "s": STRING},
    "people": {"town": INT, "x": INT, "e": DOUBLE, "name": STRING},
    "towns": {"y": INT, "label": STRING},
}
COUNT = int(os.environ.get("MILLSTREAM_TEST_DUCKDB_QUERIES", "100"))
OUT = "WITH (kafka_topic='OUT', key_format='JSON', value_format='JSON')"
Records = list[tuple[str, int, dict[str, Any] | None]]


class Query(NamedTuple):
    """A query in both dialects; ``keyed``: its result is a table, so that the last row of each key counts."""

    ours: str
    duckdb: str
    keyed: bool = False


def columns(*sources: tuple[str, str]) -> list[Column]:
    """The value columns of sources, each with its alias; without an alias, names are not qualified."""
    return [
        Column(type_, name if not alias else f"{alias}.{name}", name if not alias else f"{alias}.{name}")
        for source, alias in sources
        for name, type_ in COLUMNS[source].items()
    ]


def items(make: Generator, count: int = 3) -> list[Expression]:
    types = [make.rng.choice([INT, BIGINT, DOUBLE, STRING, BOOLEAN]) for _ in range(count)]
    return [make.expression(type_) for type_ in types]


def selected(expressions: list[Expression]) -> tuple[str, str]:
    """The select list of both queries."""
    ours = ", ".join(f"{each.ours} AS c{index}" for index, each in enumerate(expressions))
    return ours, ", ".join(f"{each.guarded} AS c{index}" for index, each in enumerate(expressions))


def where(make: Generator) -> tuple[str, str]:
    if make.rng.random() < 0.3:
        return "", ""
    condition = make.condition()
    return f" WHERE {condition.ours}", f" WHERE {condition.condition}"


def projection(rng: random.Random) -> Query:
    make = Generator(rng, [*columns(("events", "")), Column(INT, "(id + 0)", "id")])
    (ours, theirs), (kept, passed) = selected(items(make)), where(make)
    return Query(
        f"CREATE STREAM out {OUT} AS SELECT id AS k, {ours} FROM events{kept};",
        f"SELECT id AS k, {theirs} FROM events{passed}",
    )


def grouping(rng: random.Random) -> Query:
    make = Generator(rng, columns(("events", "")))
    group = make.expression(rng.choice([INT, STRING]), 1)
    calls: list[Expression] = [Expression(BIGINT, "COUNT(*)", "count(*)")]
    for _ in range(2):
        of = make.expression(rng.choice([INT, DOUBLE, STRING]), 1)
        value = of.guarded
        if of.type == STRING:
            calls.append(Expression(BIGINT, f"COUNT({of.ours})", f"count({value})"))
        elif rng.random() < 0.5:
            name = rng.choice(["MIN", "MAX"])
            calls.append(Expression(of.type, f"{name}({of.ours})", f"{name}({value})"))
        else:
            total = wrapped(f"COALESCE(sum({value}), 0)", of.type)
            calls.append(Expression(of.type, f"SUM({of.ours})", total))
    calls.append(Expression(DOUBLE, "AVG(d)", "COALESCE(avg(d), 0)"))
    having = Generator(rng, [Column(call.type, call.ours, call.duckdb) for call in calls[:3]]).condition(1)
    kept, passed = where(make)
    limit = (f" HAVING {having.ours}", f" HAVING {having.condition}") if rng.random() < 0.5 else ("", "")
    ours, theirs = selected(calls)
    rows = f"(SELECT {group.guarded} AS g, * FROM events{passed}) WHERE g IS NOT NULL"
    return Query(
        f"CREATE TABLE out {OUT} AS SELECT {group.ours} AS k, {ours} FROM events{kept} GROUP BY {group.ours}"
        f"{limit[0]};",
        f"SELECT g AS k, {theirs} FROM {rows} GROUP BY g{limit[1]}",
        keyed=True,
    )


def stream_table(rng: random.Random) -> Query:
    make = Generator(rng, [each for each in columns(("events", "l"), ("people", "r")) if each.ours != "l.b"])
    how = rng.choice(["", "LEFT "])
    (ours, theirs), (kept, passed) = selected(items(make)), where(make)
    return Query(
        f"CREATE STREAM out {OUT} AS SELECT l.b AS k, l.id AS id, {ours} FROM events l {how}JOIN people r ON l.b = r.id"
        f"{kept};",
        f"SELECT l.b AS k, l.id AS id, {theirs} FROM events l {how}JOIN people r ON l.b = r.id{passed}",
    )


def table_table(rng: random.Random) -> Query:
    make = Generator(rng, columns(("people", "l"), ("towns", "r")))
    how = rng.choice(["", "LEFT ", "FULL OUTER "])
    key, theirs_key = ("ROWKEY", "COALESCE(l.id, r.id)") if how == "FULL OUTER " else ("l.id", "l.id")
    (ours, theirs), (kept, passed) = selected(items(make)), where(make)
    return Query(
        f"CREATE TABLE out {OUT} AS SELECT {key} AS k, {ours} FROM people l {how}JOIN towns r ON l.id = r.id{kept};",
        f"SELECT {theirs_key} AS k, {theirs} FROM people l {how}JOIN towns r ON l.id = r.id{passed}",
        keyed=True,
    )


def foreign_key(rng: random.Random) -> Query:
    make = Generator(rng, columns(("people", "l"), ("towns", "r")))
    how = rng.choice(["", "LEFT "])
    (ours, theirs), (kept, passed) = selected(items(make)), where(make)
    return Query(
        f"CREATE TABLE out {OUT} AS SELECT l.id AS k, {ours} FROM people l {how}JOIN towns r ON l.town = r.id{kept};",
        f"SELECT l.id AS k, {theirs} FROM people l {how}JOIN towns r ON l.town = r.id{passed}",
        keyed=True,
    )


KINDS = [projection, grouping, stream_table, table_table, foreign_key]


# ----- data and comparison -------------------------------------------------------------------------------------------


def records(rng: random.Random) -> Records:
    """Rows of the tables, changed and deleted, then events; with many nulls and equal values."""

    def value(type_: str) -> Any:
        if rng.random() < 0.2:
            return None
        if type_ == INT:
            return rng.choice([-7, -1, 0, 1, 2, 3, 4, 5])
        if type_ == BIGINT:
            return rng.choice([-5, 0, 3, 10_000_000_000, 2**62])
        if type_ == DOUBLE:
            return rng.randrange(-20, 40) / 4
        return rng.choice(["", "a", "ab", "b", " c", "It"])

    made: Records = []
    for _ in range(30):
        source = rng.choice(["people", "towns"])
        row = {name: value(type_) for name, type_ in COLUMNS[source].items()}
        made.append((source, rng.randrange(6), row if rng.random() < 0.9 else None))
    for number in range(30):
        made.append(("events", number, {name: value(type_) for name, type_ in COLUMNS["events"].items()}))
    return made


def in_duckdb(query: Query, data: Records) -> list[tuple[Any, ...]]:
    """The rows of a query in DuckDB."""
    rows: dict[tuple[str, int], dict[str, Any] | None] = {(source, key): row for source, key, row in data}
    with duckdb.connect() as connection:
        connection.execute("SET ieee_floating_point_ops = true")
        for source, types in COLUMNS.items():
            declared = ", ".join(f"{name} {DUCKDB_TYPES[type_]}" for name, type_ in types.items())
            connection.execute(f"CREATE TABLE {source} (id INTEGER, {declared})")
            for (of, key), row in rows.items():
                if of == source and row is not None:
                    values = [key, *row.values()]
                    connection.execute(f"INSERT INTO {source} VALUES ({', '.join('?' * len(values))})", values)
        return connection.execute(query.duckdb).fetchall()


def parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def in_millstream(query: Query, data: Records) -> list[tuple[Any, ...]]:
    """The rows of a query in the test driver."""
    app = App("random")
    app.sql(SOURCES + query.ours)
    read = {source for source in COLUMNS if f" {source}" in query.ours}
    with TestDriver(app) as driver:
        for time, (source, key, row) in enumerate(data):
            if source in read:
                text = None if row is None else json.dumps(row)
                driver.input(source, key="int", value=str).pipe(key, text, timestamp=time)
        written = driver.output("OUT", key=str, value=str).read_all()
    pairs = [
        (None if r.key is None else json.loads(r.key), None if r.value is None else json.loads(r.value))
        for r in written
    ]
    if query.keyed:
        pairs = list(dict(pairs).items())
    return [(key, *row.values()) for key, row in pairs if row is not None]


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(map(_same_value, left, right))


def _same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


SEEDS = [(seed, KINDS[seed % len(KINDS)]) for seed in range(COUNT)]


@pytest.mark.parametrize(("seed", "kind"), SEEDS, ids=[f"{kind.__name__}-{seed}" for seed, kind in SEEDS])
def test_a_query_gives_the_rows_of_duckdb(seed: int, kind: Any) -> None:
    rng = random.Random(seed)
    query, data = kind(rng), records(rng)

    ours, theirs = comparable(in_millstream(query, data)), comparable(in_duckdb(query, data))

    assert len(ours) == len(theirs), query.ours
    different = [pair for pair in zip(ours, theirs, strict=True) if not same(*pair)]
    assert not different, f"{query.ours}\n{query.duckdb}\n{different[:3]}"
