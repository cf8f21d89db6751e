"""Compares applications of Millstream, Kafka Streams and Quix Streams on one broker, one after the other.

    python bench/kafka/compare.py [--scale 0.1] [--only millstream,streams] [--most-seconds 30] [--json FILE]

The cases are `count`, `map`, `windows`, `stream-table`, `table-table`, `rekeyed`, `latency-RATE` and
`latency-rekeyed-RATE`. Scale 1 has 3 million records of 100 bytes in 4 partitions, of 100,000 keys. Rates are those of
committed input offsets between 15 % and 95 % of the input, as a client that belongs to none of them reads them. A
contender that has not read it within `--most-seconds` is stopped, and its rate is that of what it has read. Latency
is how old a record is when a client reads what came of it, at a steady rate. All share the machine with the broker.
Without `--only`, settings that change only throughput or only latency are left out of the other cases.
Kafka Streams comes by Maven, Quix into an environment of its own; both are kept in the cache directory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.kafka.latency import QUIET, Steady, delays, middle_and_worst
from bench.kafka.usage import Usage
from bench.measuring import Figure, machine, show
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.dev.broker import Broker
from millstream.dev.jars import cache, copy_jars

HERE = Path(__file__).parent
RECORDS, KEYS, PARTITIONS, SIZE = 3_000_000, 100_000, 4, 100
BEGIN, END = 0.15, 0.95
PATIENCE = 1200.0
WARM, SECONDS, LATENCY_TIMEOUT = 20.0, 40.0, 180.0
_POLL = 0.1
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g")
BROKER_PROPERTIES = {  # Kafka's defaults instead of the short times for tests
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "log.retention.ms": "-1",
}
CONTENDERS = {
    "millstream real-time": ["execution.mode=real_time"],
    "millstream real-time commit 1 s": ["execution.mode=real_time", "commit.interval.ms=1000"],
    "millstream real-time commit 20 ms": ["execution.mode=real_time", "commit.interval.ms=20"],
    "millstream real-time at least once": ["execution.mode=real_time", "processing.guarantee=at_least_once"],
    "streams at least once": ["statestore.cache.max.bytes=0", "processing.guarantee=at_least_once"],
    "streams": ["statestore.cache.max.bytes=0"],
    "streams default": [],
    "streams commit 1 s": ["commit.interval.ms=1000"],
    "quix": [],
    "millstream": [],
}

LATENCY_ONLY = ("at least once", "commit 20 ms")
RATES_ONLY = ("default", "commit 1 s")
"""The ends of the names of contenders whose settings change only latency, or only rates."""

QUIX_WORK = {"count", "map"}


def main() -> int:
    """Measures, prints, and optionally writes JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--only", help=f"some of: {', '.join(CONTENDERS)}")
    options.add_argument("--cases", default="count,map,latency-1000,latency-10000")
    options.add_argument("--most-seconds", type=float, default=PATIENCE, help="of a contender that reads the input")
    options.add_argument("--warm", type=float, default=WARM, help="seconds of results before latency is measured")
    options.add_argument("--seconds", type=float, default=SECONDS, help="seconds in which latency is measured")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    times = Times(given.most_seconds, given.warm, given.seconds)
    about, figures = machine(), []
    print(f"scale {given.scale:g}; {show(about)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-kafka-", ignore_cleanup_errors=True) as folder:
        broker = Broker(Path(folder) / "broker", properties=BROKER_PROPERTIES, java_options=BROKER_OPTIONS)
        broker.start()
        try:
            total = preload(broker.bootstrap_servers, "in", int(RECORDS * given.scale))
            preload(broker.bootstrap_servers, "table", KEYS)
            cases = given.cases.split(",")
            runs = [(case, n) for case in cases for n in (given.only.split(",") if given.only else contenders(case))]
            for case, name in runs:
                for figure in measure(broker.bootstrap_servers, name, case, total, times, Path(folder)):
                    print(figure, flush=True)
                    figures.append(figure)
        finally:
            broker.stop()
            print(table(figures))
    if given.json:
        data = {"scale": given.scale, "machine": about, "figures": [figure.data() for figure in figures]}
        given.json.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return 0


def table(figures: list[Figure]) -> str:
    """Returns the figures as a table of Markdown: a row for each contender, and p50 / p99 of latencies in one cell."""
    cells: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        name = figure.what.removesuffix(", p50").removesuffix(", p99")
        cells.setdefault((name, f"{figure.case}, {figure.unit}"), []).append(show(figure.value))
    cases, names = dict.fromkeys(case for _name, case in cells), dict.fromkeys(name for name, _case in cells)
    rows = [["", *cases], ["---"] * (1 + len(cases))]
    rows += [[name, *(" / ".join(cells.get((name, case), [])) for case in cases)] for name in names]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class Times(NamedTuple):
    """The seconds that a contender may take to read the input, and those of the parts of a latency case."""

    most: float
    warm: float
    measured: float


def work_and_rate(case: str) -> tuple[str, int | None]:
    """Returns the work of a case, and the records per second at which its latency is measured, if it is."""
    if not case.startswith("latency-"):
        return case, None
    work, _dash, each_second = case.removeprefix("latency-").rpartition("-")
    return work or "count", int(each_second)


def contenders(case: str) -> list[str]:
    """Returns the contenders that can do the work of a case, and whose settings matter there."""
    work, each_second = work_and_rate(case)
    left_out = LATENCY_ONLY if each_second is None else RATES_ONLY
    return [name for name in CONTENDERS if not name.endswith(left_out) and (name != "quix" or work in QUIX_WORK)]


def preload(servers: str, topic: str, count: int) -> int:
    """Writes an input; returns the number of its offsets."""
    create(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 50, **QUIET})
    filler = "x" * (SIZE - 8)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, f"{number:08}{filler}", f"k{number % KEYS}")
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return count


def measure(servers: str, name: str, case: str, total: int, times: Times, folder: Path) -> list[Figure]:
    """Runs a contender."""
    application = f"{name.replace(' ', '-')}-{case}"
    create(servers, f"{application}-out")
    work, each_second = work_and_rate(case)
    if each_second is not None:
        return latency(servers, name, application, work, each_second, times, folder)
    return [rate(servers, name, application, case, total, times.most, folder)]


def create(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def latency(
    servers: str, name: str, application: str, work: str, each_second: int, times: Times, folder: Path
) -> list[Figure]:
    """Runs a contender while records arrive, and returns the age of its results."""
    given = f"{application}-in"
    create(servers, given)
    arguments = command(name, servers, application, work, given, folder / application)
    with running(arguments, folder / f"{application}.log"), Steady(servers, given, each_second):
        seconds = {"warm": times.warm, "seconds": times.measured, "patience": LATENCY_TIMEOUT}
        ages = delays(servers, f"{application}-out", PARTITIONS, **seconds)
    if not ages:
        raise SystemExit((folder / f"{application}.log").read_text()[-2000:] or "there was no output")
    what = f"{each_second:,} records/s" + ("" if work == "count" else f", {work}")
    half, most = middle_and_worst(ages)
    notes = {"records": len(ages)}
    return [
        Figure(f"kafka latency at {what}", f"{name}, p50", half, "ms"),
        Figure(f"kafka latency at {what}", f"{name}, p99", most, "ms", notes=notes),
    ]


def rate(servers: str, name: str, application: str, case: str, total: int, most: float, folder: Path) -> Figure:
    """Runs a contender until it has read all records, or for so many seconds, and returns its rate."""
    samples: list[tuple[float, int]] = []
    arguments = command(name, servers, application, case, "in", folder / application)
    with running(arguments, folder / f"{application}.log") as process, Usage(process.pid) as usage:
        deadline = time.monotonic() + PATIENCE
        settings = {"bootstrap.servers": servers, "group.id": application, "enable.auto.commit": False, **QUIET}
        consumer = Consumer(settings)
        places = [TopicPartition("in", number) for number in range(PARTITIONS)]
        while not samples or samples[-1][1] < total:
            try:
                done = sum(max(0, place.offset) for place in consumer.committed(places, 10))
            except KafkaException:  # right after its start, a broker has no group coordinator
                done = 0
            samples.append((time.monotonic(), done))
            if done and samples[-1][0] - began(samples) > most:
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((folder / f"{application}.log").read_text()[-2000:])
            time.sleep(_POLL)
        consumer.close()
    read = samples[-1][1]
    begin = next(sample for sample in samples if sample[1] >= BEGIN * read)
    end = next(sample for sample in samples if sample[1] >= END * read)
    speed = (end[1] - begin[1]) / max(1e-9, end[0] - begin[0])
    notes = {
        **({} if read >= total else {"records": read}),
        "seconds in all": samples[-1][0] - samples[0][0],
        "processor, s": usage.by_kind(),
        "memory, MB": usage.memory,
    }
    return Figure(f"kafka {case}", name, speed, "records/s", notes=notes)


def began(samples: list[tuple[float, int]]) -> float:
    """Returns the time of the first sample with a record."""
    return next(when for when, done in samples if done)


def command(name: str, servers: str, application: str, case: str, given: str, state: Path) -> list[str]:
    """Returns the command of a contender."""
    arguments = [servers, application, case, given, str(state), *CONTENDERS[name]]
    if name.startswith("millstream"):
        return [sys.executable, str(HERE / "millstream_app.py"), *arguments]
    if name == "quix":
        return [str(quix()), str(HERE / "quix_app.py"), *arguments]
    return ["java", "-cp", streams(), "Streams", *arguments]


def streams() -> str:
    """Returns the class path of the Java program, which is compiled once."""
    folder = cache() / "streams"
    jars = copy_jars(folder, "org.apache.kafka:kafka-streams", "org.slf4j:slf4j-nop:1.7.36")
    path = ":".join([*(str(jar) for jar in sorted(jars.glob("*.jar"))), str(folder)])
    subprocess.run(["javac", "-cp", path, "-d", str(folder), str(HERE / "Streams.java")], check=True)
    return path


def quix() -> Path:
    """Returns the Python of the environment of Quix, which is created once."""
    folder = cache().parent / "quix"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "quixstreams"], check=True)
        (folder / "ready").touch()
    return python


@contextmanager
def running(arguments: list[str], said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process and its descendants until the end of the block."""
    with said.open("wb") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=file, start_new_session=True, env=dict(os.environ))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
