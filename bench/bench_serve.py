"""Measures point queries and scans of a server, and what they cost the application whose stores it reads.

    python bench/bench_serve.py [--seconds N] [--rate N] [--mode local]

An application counts events at half of its capacity. In turn, nobody queries it, or a client sends point queries at a
constant rate; so both have the same conditions on a machine that others use, too. A route of the same server reads the
same row from Redis, if `redis-server` is installed. Latencies count from the time at which a request was due.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measuring import Figure, quantile

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

HERE = Path(__file__).parent
ROWS = "/api/v1/applications/bench/stores/counts/rows"
ONE = (1).to_bytes(8)
SLICE = 0.02


class Application:
    """The application in a process of its own."""

    def __init__(self, data: Path, mode: str) -> None:
        arguments = [sys.executable, str(HERE / "serve_application.py"), str(data), mode]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def figures(self) -> dict[str, list[float]]:
        """The times of commits and the lags since the last call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("figures\n")
        self.process.stdin.flush()
        taken: dict[str, list[float]] = json.loads(self.process.stdout.readline())
        return taken

    def wait_until_caught_up(self) -> float:
        """Waits until there is no lag, and returns the time."""
        while True:
            lags = self.figures()["lags"]
            if lags and lags[-1] == 0:
                return time.perf_counter()
            time.sleep(0.1)

    def end(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Feeder(threading.Thread):
    """Writes events at a constant rate."""

    def __init__(self, data: Path, keys: int, rate: float) -> None:
        super().__init__(daemon=True)
        self._data, self._keys, self._rate = data, keys, rate
        self.stopped = threading.Event()

    def run(self) -> None:
        with open_log(self._data) as log:
            due = time.perf_counter()
            while not self.stopped.is_set():
                log.produce("events", events(int(self._rate * SLICE), self._keys))
                due = max(due + SLICE, time.perf_counter() - 1.0)
                time.sleep(max(0.0, due - time.perf_counter()))


def events(count: int, keys: int) -> list[ProducerRecord]:
    return [ProducerRecord(b"key-%06d" % random.randrange(keys), ONE) for _ in range(count)]


@dataclass
class Server:
    """The process of the server, and its port."""

    pid: int
    port: int

    def processor_seconds(self) -> float:
        """The processor time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(data: Path, redis: int = 0, **options: Any) -> Iterator[Server]:
    """The server, with fields of `ServeOptions`."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "serve_host.py"), str(redis)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"host": "127.0.0.1", "port": 0, "data": str(data), **options}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        try:
            yield Server(process.pid, int(answer["address"].split(":")[2].split("/")[0]))
        finally:
            process.stdin.close()


@contextlib.contextmanager
def redis_server(directory: Path) -> Iterator[int]:
    """A Redis server on a free port of this machine; yields 0 if there is none."""
    program = shutil.which("redis-server")
    if program is None:
        yield 0
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(directory)]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()


def fill_redis(port: int, keys: int) -> None:
    """Writes a row for each key, as the store has it."""
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.05)
    with connection, connection.makefile("rb") as answers:
        for number in range(keys):
            key = b"key-%06d" % number
            row = b'{"rows":[{"key":"%s","value":1,"timestamp":1795063151399}],"cursor":null}' % key
            connection.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(row), row))
            answers.readline()


def query(server: Server, token: str, paths: Path, options: Any, seconds: float) -> dict[str, Any]:
    """Sends requests from a process of its own."""
    arguments = {"port": server.port, "token": token, "paths": paths, "rate": options.rate, "seconds": seconds}
    given = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
    before = server.processor_seconds()
    done = subprocess.run([sys.executable, str(HERE / "http_load.py"), *given], check=True, stdout=subprocess.PIPE)
    answer: dict[str, Any] = {**json.loads(done.stdout), "processor": server.processor_seconds() - before}
    if answer["failed"]:
        raise SystemExit(f"{answer['failed']} requests have failed")
    return answer


def scan(port: int, token: str) -> tuple[int, float]:
    """Reads all rows, page by page; returns their number and the seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    cursor, rows, begin = "", 0, time.perf_counter()
    while cursor is not None:
        path = f"{ROWS}?limit=1000" + (f"&cursor={cursor}" if cursor else "")
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        content = json.loads(connection.getresponse().read())
        rows += len(content["rows"])
        cursor = content["cursor"]
    connection.close()
    return rows, time.perf_counter() - begin


def change(before: float, after: float) -> float:
    return 100 * (after - before) / before if before else 0.0


def measure(options: argparse.Namespace, directory: Path) -> list[Figure]:
    data = directory / "data"
    with open_log(data) as log:
        log.create_topic("events", 2)
        everything = [ProducerRecord(b"key-%06d" % number, ONE) for number in range(options.keys)]
        for begin in range(0, options.keys, 10_000):
            log.produce("events", everything[begin : begin + 10_000])
    application = Application(data, options.mode)
    try:
        application.wait_until_caught_up()
        begin = time.perf_counter()
        with open_log(data) as log:
            for _ in range(options.backlog // 10_000):
                log.produce("events", events(10_000, options.keys))
        application.figures()
        time.sleep(0.1)
        capacity = options.backlog / (application.wait_until_caught_up() - begin)
        with redis_server(directory) as redis, serving(data, redis) as server:
            return measured(options, directory, application, capacity, redis, server)
    finally:
        application.end()


def measured(
    options: argparse.Namespace, directory: Path, application: Application, capacity: float, redis: int, server: Server
) -> list[Figure]:
    data = directory / "data"
    token = Tokens(data).create("bench", Role.VIEWER)
    chosen = [f"key-{random.randrange(options.keys):06}" for _ in range(5000)]
    stores, rows = directory / "stores", directory / "rows"
    stores.write_text("\n".join(f"{ROWS}?key={key}" for key in chosen), encoding="utf-8")
    rows.write_text("\n".join(f"/bench/redis/{key}" for key in chosen), encoding="utf-8")
    count, seconds = scan(server.port, token)
    feeder = Feeder(data, options.keys, capacity / 2)
    feeder.start()
    query(server, token, stores, options, 2.0)  # warms up
    share = options.seconds / options.rounds
    quiet: dict[str, list[float]] = {"commits": [], "lags": []}
    asked: dict[str, list[float]] = {"commits": [], "lags": []}
    other: dict[str, list[float]] = {"commits": [], "lags": []}
    took: dict[str, list[dict[str, Any]]] = {"store": [], "redis": []}
    if redis:
        fill_redis(redis, options.keys)
    for _ in range(options.rounds):
        application.figures()
        time.sleep(share)
        for name, values in application.figures().items():
            quiet[name] += values
        took["store"].append(query(server, token, stores, options, share))
        for name, values in application.figures().items():
            asked[name] += values
        if redis:
            took["redis"].append(query(server, token, rows, options, share))
            for name, values in application.figures().items():
                other[name] += values
    feeder.stopped.set()
    feeder.join()
    figures = [
        Figure("scan", f"{count:,} rows in pages of 1,000", count / seconds, "rows/s"),
        Figure("application", "capacity", capacity, "records/s", notes={"input": capacity / 2}),
    ]
    for name in ("store", "redis"):
        latencies = [each for run in took[name] for each in run["latencies"]]
        if latencies:
            figures.append(Figure(name, f"point query of {name}, p50", quantile(latencies, 0.5), "ms"))
            worst = Figure(name, f"point query of {name}, p99", quantile(latencies, 0.99), "ms")
            figures.append(worst.at_most(5.0) if name == "store" else worst)
            effort = sum(run["processor"] for run in took[name]) / len(latencies) * 1e6
            figures.append(Figure(name, f"point query of {name}, processor time of the server", effort, "us"))
    for name, values, unit in (("commit", "commits", "ms"), ("lag", "lags", "records")):
        for what, part in (("p99", lambda each: quantile(each, 0.99)), ("mean", statistics.mean)):
            before, after = part(quiet[values]), part(asked[values])
            # Requests to Redis take the same processor time from the application, and do not read its store.
            notes = {
                "without": before,
                "with": after,
                "unit": unit,
                "samples": [len(quiet[values]), len(asked[values])],
            }
            if other[values]:
                notes["with those of Redis instead"] = part(other[values])
            figure = Figure(name, f"{name} {what}, with queries", change(before, after), "% more", notes=notes)
            figures.append(figure.at_most(3.0) if what == "p99" else figure)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of queries of the store, in all rounds")
    parser.add_argument("--rounds", type=int, default=4, help="how often the cases alternate")
    parser.add_argument("--rate", type=float, default=1000, help="requests per second")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--backlog", type=int, default=300_000, help="the records with which the capacity is measured")
    parser.add_argument("--mode", default="local", help="the execution mode of the application")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as directory:
        figures = measure(options, Path(directory))
    print(f"point queries at {options.rate:g}/s; load of the machine: {os.getloadavg()[0]:.1f}")
    for figure in figures:
        print(figure)
    if options.json is not None:
        options.json.write_text(json.dumps([figure.data() for figure in figures], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
