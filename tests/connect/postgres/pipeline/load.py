"""Load on the source: inserts, updates, deletes, key changes, long and large transactions, rollbacks, savepoints."""

from __future__ import annotations

import random
import threading
from contextlib import closing, suppress

import psycopg2
from tests.connect.postgres.server import Database

SCHEMA = """
create table customers (id int primary key, name text not null);
create table orders (id int primary key, customer int not null, amount int not null, note text);
insert into customers select n, 'customer ' || n from generate_series(1, 20) n;
insert into orders select n, 1 + n % 25, n % 100, null from generate_series(1, 4000) n;
"""

MARK = -1_000_000
"""The amount in rows of transactions that are rolled back."""


class Load:
    """Changes the tables in several threads, in transactions of 1 to `most` statements, until it is stopped."""

    def __init__(self, database: Database, threads: int = 3, most: int = 40) -> None:
        self._database = database
        self._most = most
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self.transactions = 0
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        while not self._stopping.is_set():
            with suppress(psycopg2.Error):  # a server that was killed
                self._work(chance)
            self._stopping.wait(0.05)

    def _work(self, chance: random.Random) -> None:
        with closing(self._database.connect()) as connection:
            connection.autocommit = False
            while not self._stopping.is_set():
                with suppress(psycopg2.errors.IntegrityError, psycopg2.errors.TransactionRollbackError):
                    self._transaction(connection, chance)
                connection.rollback()
                self._stopping.wait(chance.random() / 50)

    def _transaction(self, connection: psycopg2.extensions.connection, chance: random.Random) -> None:
        with connection.cursor() as cursor:
            for _ in range(chance.choice((1, 2, 5, self._most))):
                if chance.random() < 0.1:
                    cursor.execute("savepoint here")
                    cursor.execute("update orders set amount = %s where id = %s", (MARK, chance.randint(1, 6000)))
                    cursor.execute("rollback to savepoint here")
                self._statement(cursor, chance)
            if chance.random() < 0.05:
                self._stopping.wait(0.2)  # a long one, between others
        if chance.random() < 0.1:
            with connection.cursor() as cursor:
                cursor.execute("update orders set amount = %s where id %% 70 = 0", (MARK,))
            connection.rollback()
        else:
            connection.commit()
            self.transactions += 1

    @staticmethod
    def _statement(cursor: psycopg2.extensions.cursor, chance: random.Random) -> None:
        order, customer = chance.randint(1, 6000), chance.randint(1, 25)
        kind = chance.random()
        if kind < 0.3:
            cursor.execute(
                "insert into orders values (%s, %s, %s, null) on conflict (id) do update set amount = excluded.amount",
                (order, customer, chance.randrange(100)),
            )
        elif kind < 0.6:
            cursor.execute("update orders set amount = amount + 1, customer = %s where id = %s", (customer, order))
        elif kind < 0.75:
            cursor.execute("delete from orders where id = %s", (order,))
        elif kind < 0.85:
            cursor.execute("update orders set id = %s where id = %s", (chance.randint(1, 6000), order))
        elif kind < 0.95:
            cursor.execute("update customers set name = %s where id = %s", (f"name {chance.random():.6f}", customer))
        else:
            cursor.execute("insert into customers values (%s, 'new') on conflict do nothing", (customer,))
