"""The embedded log: producing, reading, publishing, and waking up.

    python bench/bench_log.py [--records N] [--json FILE] [--directory PATH]

Records have a short key and a value of 100 bytes, half of it text and half of it noise. The best of several rounds
counts, because the machine may be busy with other things.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable

import pyarrow as pa

from millstream.core.failpoints import declare, reach
from millstream.core.partitioning_arrow import partitions_for
from millstream.log import Append, Log, ProducerRecord, Publication, Scope, open_log
from millstream.log.blocks import encode

PER_CALL = 5_000
PARTITIONS = 4
ROUNDS = 3

WAITER = """
import sys, time
from millstream.log import open_log

with open_log(sys.argv[1]) as log:
    position = log.ends(["wake"])["wake"][0]
    print("ready", flush=True)
    while log.wait({("wake", 0): position}, 60):
        print(time.monotonic_ns(), flush=True)
        position += 1
"""


def values(count: int) -> list[bytes]:
    """Values of 100 bytes."""
    return [
        b'{"user": "somebody", "page": "/products", "session": "%s"}' % os.urandom(21).hex().encode()
        for _ in range(count)
    ]


def best(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Returns the shortest time of several runs, in seconds."""
    return min(timeit.repeat(action, number=1, repeat=rounds))


def produce(log: Log, records: int) -> tuple[float, float]:
    """Returns the records per second, including the creation of tuples, and the processor time of each in µs."""
    data = values(PER_CALL)
    keys = [b"key-%d" % random.randrange(100_000) for _ in range(PER_CALL)]

    def run() -> None:
        for _ in range(records // PER_CALL):
            log.produce("records", [ProducerRecord(key, value) for key, value in zip(keys, data, strict=True)])

    log.create_topic("records", PARTITIONS, exist_ok=True)
    wall = best(run)
    started = time.process_time()
    run()
    return records / wall, (time.process_time() - started) / records * 1e6


def read(log: Log, records: int) -> float:
    """Returns the records per second of reading the records of `produce` as Arrow."""
    ends = log.ends(["records"])["records"]
    starts = [max(0, end - records // PARTITIONS) for end in ends]
    total = sum(ends) - sum(starts)

    def run() -> None:
        count = sum(log.read("records", at, starts[at], ends[at]).num_rows for at in range(PARTITIONS))
        assert count == total

    return total / best(run)


def single(log: Log) -> tuple[float, float]:
    """Returns the milliseconds to produce a single record, and to read it."""
    log.create_topic("single")
    count = 500
    value = values(1)[0]
    writing = best(lambda: [log.produce("single", [ProducerRecord(b"key", value)]) for _ in range(count)], 1)
    reading = best(lambda: log.read("single", 0, 0, count))
    return writing / count * 1e3, reading / count * 1e3


def publish(log: Log) -> float:
    """Returns the milliseconds to publish a batch of 8 blocks of 1 000 records with offsets and fingerprints."""
    log.create_topic("out", 8)
    epoch = log.applications.acquire(Scope("bench"))
    data = values(1_000)
    block = encode(range(1_000), [b"key"] * 1_000, data)
    appends = [Append("out", partition, block) for partition in range(8)]
    offsets = {("records", partition): 0 for partition in range(PARTITIONS)}
    times = []
    for batch in range(50):
        publication = Publication(
            Scope("bench"), epoch, batch, appends, offsets, fingerprints={"out": (8_000, b"digest")}
        )
        started = time.perf_counter()
        log.applications.publish(publication)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def wake(log: Log, directory: str) -> tuple[float, float]:
    """Returns the milliseconds from a commit to the return of `wait` in another process: the median and the maximum."""
    log.create_topic("wake")
    command = [sys.executable, "-c", WAITER, directory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        delays = []
        for _ in range(40):
            time.sleep(random.uniform(0.05, 0.4))
            log.produce("wake", [ProducerRecord(None, b"v")])
            committed = time.monotonic_ns()
            delays.append(max(0, int(waiter.stdout.readline()) - committed) / 1e6)
        waiter.kill()
    return statistics.median(delays), max(delays)


def partitions() -> float:
    """Returns the keys per second."""
    keys = pa.array([b"key-%d" % random.randrange(10**6) for _ in range(1_000_000)], pa.binary())
    return 1_000_000 / best(lambda: partitions_for(keys, 12))


def failpoint() -> float:
    """Returns the nanoseconds to pass a disarmed failpoint."""
    names = {"reach": reach, "point": declare("bench.point")}
    return min(timeit.repeat("reach(point)", globals=names, number=1_000_000, repeat=3)) * 1e3


def main() -> int:
    """Measures, prints, and optionally writes JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--directory", help="the directory of the log; the figures depend on its disk")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory, open_log(directory) as log:
        speed, effort = produce(log, arguments.records)
        figures = {
            "produce, thousand records/s": speed / 1e3,
            "produce, processor µs a record": effort,
            "read, thousand records/s": read(log, arguments.records) / 1e3,
        }
        figures["produce a single record, ms"], figures["read a record written alone, ms"] = single(log)
        figures["publish 8 blocks of 1000, ms"] = publish(log)
        figures["wake up, median ms"], figures["wake up, worst ms"] = wake(log, directory)
        figures["partitions_for, million keys/s"] = partitions() / 1e6
        figures["failpoint that is off, ns"] = failpoint()
    for what, figure in figures.items():
        print(f"{what:36} {figure:12,.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
