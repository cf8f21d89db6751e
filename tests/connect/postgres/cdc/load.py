"""Transactions that change a table while it is captured."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from tests.connect.postgres.server import Database

from millstream.connect.api import SourceRecord

KEYS = 300

CREATE = """
create sequence version;
create table t (id int primary key, n bigint default nextval('version'), v text);
insert into t select g, 0, 'first' from generate_series(1, 200) g
"""


def _change(cursor: Any, chance: random.Random) -> None:
    key, other = chance.randint(1, KEYS), chance.randint(1, KEYS)
    kind = chance.random()
    if kind < 0.35:
        cursor.execute("update t set n = nextval('version'), v = %s where id = %s", (str(kind), key))
    elif kind < 0.5:
        cursor.execute("update t set n = nextval('version') where id between %s and %s", (key, key + 10))
    elif kind < 0.65:
        cursor.execute("delete from t where id = %s", (key,))
    elif kind < 0.85:
        cursor.execute("insert into t (id, v) values (%s, 'new') on conflict do nothing", (key,))
    elif kind < 0.95:
        cursor.execute(
            "update t set id = %s, n = nextval('version') where id = %s "
            "and not exists (select 1 from t where id = %s)", (other, key, other)
        )  # fmt: skip
    else:
        cursor.execute("savepoint s")
        cursor.execute("update t set n = nextval('version'), v = 'rolled back' where id = %s", (key,))
        cursor.execute("rollback to s")


def _run(database: Database, seed: int, transactions: int) -> None:
    chance = random.Random(seed)
    connection = database.connect()
    connection.autocommit = False
    for _ in range(transactions):
        try:
            with connection.cursor() as cursor:
                for _ in range(chance.choice((1, 1, 2, 5, 20))):
                    _change(cursor, chance)
            if chance.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
        except psycopg2.errors.Error:  # a deadlock, or a key that another transaction has taken
            connection.rollback()
    connection.close()


@contextmanager
def load(database: Database, transactions: int, writers: int = 2) -> Iterator[None]:
    """Changes the table in other threads, until all transactions are done."""
    threads = [threading.Thread(target=_run, args=(database, seed, transactions)) for seed in range(writers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def check_history(database: Database, records: list[SourceRecord], topic: str = "p.public.t") -> None:
    """Checks that the versions of each key never go back, and that the last ones are those in the table."""
    latest: dict[str, int] = {}
    rows: dict[str, Any] = {}
    for record in records:
        if record.topic != topic or record.value is None:
            continue
        key, value = json.dumps(record.key), record.value
        if value["op"] == "d":
            rows.pop(key, None)
            continue
        version = value["after"]["n"]
        if value["op"] == "r":
            assert version >= latest.get(key, 0), f"the row {key} of a snapshot is older than a change of it"
        else:
            assert version > latest.get(key, -1), f"a change of {key} is older than what came before it"
        latest[key] = version
        rows[key] = value["after"]
    table = database.execute("select id, n, v from t")
    assert rows == {json.dumps({"id": key}): {"id": key, "n": n, "v": v} for key, n, v in table}
