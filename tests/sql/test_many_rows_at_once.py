"""Expressions that are evaluated for many rows at once give the values, and report the errors, of single rows."""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from typing import Any

import pytest
from tests.sql.random_queries import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Column, Generator

from millstream import App
from millstream.engine import Task
from millstream.engine.compile import Build
from millstream.engine.queues import Columns
from millstream.sql import udaf, udf
from millstream.sql.functions.user import unregister

TYPES = {"a": INT, "b": INT, "n": BIGINT, "d": DOUBLE, "s": STRING, "t": BOOLEAN}
SOURCE = f"""CREATE STREAM events (id STRING KEY, {", ".join(f"{name} {type_}" for name, type_ in TYPES.items())})
    WITH (kafka_topic='events', value_format='JSON');
"""
VALUES: dict[str, list[Any]] = {
    "a": [0, 1, -3, 7, 2**31 - 1, -(2**31)],
    "b": [0, 2, 5, -1],
    "n": [0, 3_000_000_000, 2**63 - 1, -(2**63), 4],
    "d": [0.0, -0.0, 2.5, 1e-9, 3e20, -7.25],
    "s": ["", "a", "bc", "B c", "12", "zwölf\n\U0001f600", 'say "no"'],
    "t": [True, False],
}
PLAIN: dict[str, list[Any]] = {
    "a": [1, 2, 3],
    "b": [4, 5],
    "n": [6, 7],
    "d": [0.5, 1.5],
    "s": ["a", "12"],
    "t": [True, False],
}


def rows(rng: random.Random) -> list[bytes]:
    """Rows without nulls and large numbers, or with them; sometimes a row that does not have the usual form."""
    plain = rng.random() < 0.4
    choices: dict[str, list[Any]] = PLAIN if plain else VALUES
    nulls = 0 if plain else rng.choice([0, 0.03, 0.3])
    made: list[dict[str, Any]] = [
        {name: None if rng.random() < nulls else rng.choice(options) for name, options in choices.items()}
        for _ in range(40)
    ]
    if rng.random() < 0.3:
        made[rng.randrange(40)] = {"A": "3", "other": [1], "d": 2}
    return [json.dumps(row).encode() for row in made]


def results(
    statements: str, values: list[bytes], caplog: pytest.LogCaptureFixture, distinct: int = 5, **config: Any
) -> tuple[list[Any], Counter[str]]:
    """Returns the records that a query writes, and the errors that it reports; rows have several distinct keys."""
    app = App("rows", config=config)
    app.sql(SOURCE + statements)
    task = Task(app.topology(), app.config)
    count = len(values)
    keys = [b"key-%d" % (place % distinct) for place in range(count)]
    caplog.clear()
    task.take([(task.input("events", 0), Columns(range(count), range(count), keys, values, [()] * count))])
    written = []
    for output in task.take_outputs():
        if hasattr(output, "keys"):
            written += list(zip(output.keys, output.values, output.timestamps, strict=True))
        else:
            written.append((output.key, output.value, output.timestamp))
    return written, Counter(record.getMessage() for record in caplog.records)


def query(rng: random.Random) -> str:
    make = Generator(rng, [Column(type_, name, name) for name, type_ in TYPES.items()])
    if rng.random() < 0.3:
        calls = [
            f"{rng.choice(['SUM', 'MAX', 'MIN', 'COUNT', 'AVG', 'LATEST_BY_OFFSET'])}({make.expression(type_).ours})"
            for type_ in rng.choices([INT, BIGINT, DOUBLE], k=3)
        ]
        listed = ", ".join(f"{call} AS c{index}" for index, call in enumerate(calls))
        return f"CREATE TABLE o WITH (kafka_topic='OUT') AS SELECT id, {listed} FROM events GROUP BY id;"
    listed = ", ".join(
        f"{make.expression(rng.choice([INT, BIGINT, DOUBLE, STRING, BOOLEAN]), 3).ours} AS c{index}"
        for index in range(rng.randrange(1, 6))
    )
    where = f"WHERE {make.condition(3).ours}" if rng.random() < 0.7 else ""
    return f"CREATE STREAM o WITH (kafka_topic='OUT') AS SELECT id, {listed} FROM events {where};"


@pytest.mark.parametrize("seed", range(12))
def test_many_rows_have_the_results_of_single_rows(
    seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)
    caplog.set_level(logging.INFO, "millstream.sql.processing")
    cases = [(query(rng), rows(rng)) for _ in range(15)]
    at_once = [results(*case, caplog) for case in cases]
    monkeypatch.setattr(Build, "bulk", lambda _self, _node: None)
    for case, expected in zip(cases, at_once, strict=True):
        assert results(*case, caplog) == expected, case[0]
    assert any(written for written, _errors in at_once)


def test_functions_of_the_user_are_called_once_for_each_row(caplog: pytest.LogCaptureFixture) -> None:
    called: list[str] = []

    @udf(name="ONCE")
    def once(value: int) -> int:
        called.append(f"once {value}")
        return 6 // value

    @udaf(name="TOTAL")
    class Total:
        def initial(self) -> int:
            return 0

        def add(self, state: int, value: int) -> int:
            called.append(f"add {value}")
            return state + value

        def merge(self, left: int, right: int) -> int:
            return left + right

        def finish(self, state: int) -> int:
            called.append(f"finish {state}")
            if state == 3:
                raise ValueError("three")
            return state

    values = [b'{"n":1,"s":"one"}', b'{"n":0,"s":"two"}', b'{"n":2,"s":"three"}']
    config = {"processing.exception.handler": "continue"}
    try:
        results("CREATE STREAM o AS SELECT id, ONCE(n) + LEN(s) AS x FROM events WHERE ONCE(n) > 1;", values, caplog)
        assert called == ["once 1", "once 0", "once 2", "once 1", "once 2"]
        called.clear()
        results("CREATE TABLE o AS SELECT id, TOTAL(n) AS x FROM events GROUP BY id;", values, caplog, 1, **config)
        assert called == ["add 1", "add 0", "add 2", "finish 1", "finish 1", "finish 3"]
    finally:
        unregister("ONCE")
        unregister("TOTAL")
