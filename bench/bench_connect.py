"""Connectors with PostgreSQL: snapshot and stream beside COPY and pg_recvlogical, the sink beside COPY, and the lag.

    python bench/bench_connect.py [--rows 200000] [--seconds 20] [--rate 200]

It starts a PostgreSQL server in a temporary directory, on loopback. All figures are of one run; the source, the log and
the target share the machine.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.connect.postgres.server import Database, PostgresServer, find_binaries

from millstream import App, debezium, debezium_key
from millstream.connect.postgres import PostgresSink, PostgresSource
from millstream.log import open_log

COLUMNS = "id bigint primary key, customer int, sku text, amount numeric(10,2), at timestamptz, note text, paid boolean"
ROWS = (
    "insert into {table} select n, n % 1000, 'sku-' || n % 500, (n % 10000) / 100.0, "
    "timestamptz '2026-01-01' + n * interval '1 second', 'note ' || n, n % 2 = 0 "
    "from generate_series({first}, {last}) n"
)


@contextmanager
def server() -> Iterator[PostgresServer]:
    binaries = find_binaries()
    if binaries is None:
        sys.exit("there is no PostgreSQL server on this machine: install Debian's package postgresql")
    root = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    root.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    running = PostgresServer(binaries, root / "s", port)
    try:
        running.create()
        running.start(fsync="on", shared_buffers="256MB", max_wal_size="4GB")
        yield running
        running.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def source(database: Database, slot: str = "bench", table: str = "orders") -> PostgresSource:
    return PostgresSource(
        {
            "database.hostname": "127.0.0.1",
            "database.port": database.server.port,
            "database.user": "postgres",
            "database.dbname": database.name,
            "topic.prefix": "bench",
            "slot.name": slot,
            "publication.name": slot,
            "table.include.list": f"public.{table}",
        }
    )


def sink(database: Database, table: str, mode: str, key: str = "record_key") -> PostgresSink:
    settings = {
        "connection.url": f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}",
        "collection.name.format": table,
        "insert.mode": mode,
        "primary.key.mode": key,
        "schema.evolution": "basic",
    }
    return PostgresSink(settings | ({"primary.key.fields": "key"} if key == "record_key" else {}))


def app(directory: Path, **config: Any) -> App:
    return App("bench", config={"state.dir": str(directory), "status": "none", **config})


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def show(what: str, count: int, duration: float, beside: float | None = None) -> None:
    ratio = "" if beside is None else f"  {beside / duration:5.2f} of the line above"
    print(f"{what:52} {count / duration:12,.0f} /s{ratio}", flush=True)


def capture(database: Database, directory: Path, rows: int) -> None:
    database.execute(f"create table orders ({COLUMNS})")
    database.execute(ROWS.format(table="orders", first=1, last=rows))
    database.execute("checkpoint")

    def copy() -> None:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.copy_expert("copy orders to stdout", io.BytesIO())
        connection.close()

    plain = seconds(copy)
    show("COPY of a table to the client", rows, plain)

    def run(value: str) -> float:
        application = app(directory / value)
        application.connect("capture", source(database, f"bench_{value}"), key="json", value=value)
        return seconds(lambda: application.run(until_caught_up=True))

    for value in ("json", "avro"):
        show(f"first snapshot, {value}, with the start", rows, run(value), plain)

    changes = rows // 2
    with database.connect() as connection, connection.cursor() as cursor:
        connection.autocommit = False
        for first in range(0, changes, 100):
            cursor.execute("update orders set amount = amount + 1 where id > %s and id <= %s", (first, first + 100))
            connection.commit()
    connection.close()
    end = database.execute("select pg_current_wal_lsn()")[0][0]
    database.execute("select pg_create_logical_replication_slot('other', 'pgoutput')")
    database.execute("select pg_copy_logical_replication_slot('bench_json', 'copied')")
    program = (database.server.binaries / "initdb").resolve().with_name("pg_recvlogical")
    receive = [
        *database.server._user, str(program), "-h", "127.0.0.1",
        "-p", str(database.server.port), "-U", "postgres", "-d", database.name, "--slot", "copied", "--start",
        "--endpos", str(end), "-o", "proto_version=1", "-o", "publication_names=bench_json", "-f", "/dev/null",
    ]  # fmt: skip
    plain = seconds(lambda: subprocess.run(receive, check=True, capture_output=True, cwd="/"))
    show("pg_recvlogical, updates in transactions of 100", changes, plain)
    for value in ("json", "avro"):
        show(f"stream, {value}, with the start", changes, run(value), plain)
    for slot in ("other", "copied"):
        database.execute("select pg_drop_replication_slot(%s)", (slot,))


def write(database: Database, directory: Path, rows: int) -> None:
    with open_log(directory) as log:
        topic = log.topic("bench.public.orders")
        stored = sum(size.records for size in log.sizes(topic.name))
    lines = io.StringIO()
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.copy_expert("copy orders to stdout", lines)
        cursor.execute(f"create table copied ({COLUMNS})")
        lines.seek(0)
        plain = seconds(lambda: cursor.copy_expert("copy copied from stdin", lines))
    connection.close()
    show("COPY of a table from the client", rows, plain)
    for mode, key in (("insert", "none"), ("upsert", "record_key")):
        application = app(directory)
        written = sink(database, f"written_{mode}", mode, key)
        application.connect(mode, written, topics=["bench.public.orders"], key=debezium_key("id"), value=debezium())
        show(f"sink, {mode}, JSON envelopes, offsets with the rows", stored, seconds(
            lambda application=application: application.run(until_caught_up=True)
        ), plain * stored / rows)  # fmt: skip


class Lag:
    """Times from the commit of a row to the moment at which its result is seen."""

    def __init__(self) -> None:
        self.committed: dict[int, float] = {}
        self.seen: dict[int, float] = {}

    def see(self, number: int) -> None:
        self.seen.setdefault(number, time.perf_counter())

    def show(self, where: str) -> None:
        lags = sorted((self.seen[n] - at) * 1000 for n, at in self.committed.items() if n in self.seen)
        quantiles = statistics.quantiles(lags, n=100)
        count = f"{len(lags)} of {len(self.committed)} rows"
        print(
            f"lag, commit to {where:36} p50 {quantiles[49]:6.0f} ms   p99 {quantiles[98]:6.0f} ms   ({count})",
            flush=True,
        )


def lag(database: Database, target: Database, directory: Path, duration: int, rate: int) -> None:
    database.execute(f"create table live ({COLUMNS})")
    application = app(directory, **{"execution.mode": "local", "commit.interval.ms": 20})
    application.connect("live", source(database, "live", "live"))
    rows = application.table("bench.public.live", key=debezium_key("id", type=int), value=debezium(), store="live")
    rows.to_stream().map_values(lambda row: {"customer": row["customer"]}).to("results", key=int)
    application.connect("table", sink(target, "results", "upsert"), topics=["results"], key=int)
    lags = {"a topic": Lag(), "a table of PostgreSQL": Lag(), "a store": Lag()}
    stop = threading.Event()
    with application.start() as handle:
        while not any(task["commits"] for task in handle.metrics()["connectors"]["live"]["tasks"]):
            time.sleep(0.1)
        watchers = [
            threading.Thread(target=watch, args=(stop, lags[name]), daemon=True)
            for name, watch in (
                ("a topic", lambda stop, lag: follow(directory, stop, lag)),
                ("a table of PostgreSQL", lambda stop, lag: poll(target, stop, lag)),
                ("a store", lambda stop, lag: look(application, stop, lag)),
            )
        ]
        for watcher in watchers:
            watcher.start()
        connection = database.connect()  # a transaction for each row: `with` would make one of all
        with connection.cursor() as cursor:
            begun = time.perf_counter()
            for number in range(duration * rate):
                time.sleep(max(0.0, begun + number / rate - time.perf_counter()))
                cursor.execute(ROWS.format(table="live", first=number, last=number))
                for each in lags.values():
                    each.committed[number] = time.perf_counter()
        connection.close()
        time.sleep(3)
        stop.set()
        for watcher in watchers:
            watcher.join(10)
    for where, each in lags.items():
        each.show(where)


def follow(directory: Path, stop: threading.Event, lag: Lag) -> None:
    with open_log(directory) as log:
        follower = log.follow()
        follower.follow({("results", 0): 0})
        while not stop.is_set():
            for fetched in follower.poll(0.05):
                for key in fetched.keys:
                    lag.see(int.from_bytes(key or b"", "big"))


def poll(target: Database, stop: threading.Event, lag: Lag) -> None:
    connection = target.connect()
    last = -1
    while not stop.wait(0.005):
        with connection.cursor() as cursor:
            cursor.execute("select to_regclass('results')")
            if cursor.fetchall()[0][0] is None:
                continue
            cursor.execute("select key from results where key > %s order by key", (last,))
            for (number,) in cursor.fetchall():
                lag.see(number)
                last = number
    connection.close()


def look(application: App, stop: threading.Event, lag: Lag) -> None:
    store = application.store("live")
    number = 0
    while not stop.is_set():
        if store.get(number) is None:
            stop.wait(0.002)
        else:
            lag.see(number)
            number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=200)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rows:,} rows of seven columns")
    directory = Path(tempfile.mkdtemp(prefix="millstream-bench-data-"))
    try:
        with server() as running, running.database() as database, running.database() as target:
            capture(database, directory, options.rows)
            write(database, directory / "json", options.rows)
            lag(database, target, directory / "lag", options.seconds, options.rate)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
