"""Joins on a backlog: matches found by Kafka Streams and by Millstream, with the same topology on one broker.

    python bench/kafka/replay.py [--records 20000] [--only "millstream,streams"] [--json FILE]

An hour of orders and of payments is in the log before an application starts: 20,000 orders in 4 partitions, each paid
0 to 12 minutes later, in the order of time. The application joins orders with payments within 10 minutes, with 2
minutes of grace. It reads orders from their topic; payments pass one or two changes of key behind stateful operators,
and so one or two repartition topics. Expected matches are computed here, from the input alone. An order comes out twice
if it was released without its payment, and then joined with it. Kafka Streams has no cache, so that every payment
passes the stateful operators.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from subprocess import Popen

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.kafka.compare import BROKER_OPTIONS, BROKER_PROPERTIES, HERE, PARTITIONS, create, running, streams
from bench.kafka.latency import QUIET
from bench.measuring import Figure, machine, show
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from millstream.dev.broker import Broker

INPUTS = ("orders", "payments")
RECORDS, ACCOUNTS = 20_000, 500
START, HOUR, MINUTE = 1_760_000_000_000, 3_600_000, 60_000
WINDOW, LATEST_PAYMENT = 10 * MINUTE, 12 * MINUTE
CASES = {
    "one-exchange": "payments behind one exchange, orders read directly",
    "two-exchanges": "payments behind two exchanges, orders read directly",
}
_NO_CACHE = "statestore.cache.max.bytes=0"
VARIANTS = {
    "streams": [_NO_CACHE],
    "streams idle 1 s": [_NO_CACHE, "max.task.idle.ms=1000"],
    "millstream": ["exact.replays=true"],
    "millstream off": ["exact.replays=false"],
}
_POLL, _UNCHANGED, _TIMEOUT = 0.25, 20.0, 900.0


def main() -> int:
    """Runs every variant on every case, prints its matches, and optionally writes JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=RECORDS, help="number of orders")
    options.add_argument("--only", default=",".join(VARIANTS), help=f"some of: {', '.join(VARIANTS)}")
    options.add_argument("--cases", default=",".join(CASES), help=f"some of: {', '.join(CASES)}")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    about, figures = machine(), []
    print(f"{given.records:,} orders; {show(about)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-replay-", ignore_cleanup_errors=True) as folder:
        broker = Broker(Path(folder) / "broker", properties=BROKER_PROPERTIES, java_options=BROKER_OPTIONS)
        broker.start()
        try:
            matches = fill(broker.bootstrap_servers, given.records)
            for case in given.cases.split(","):
                print(f"{CASES[case]}: {len(matches):,} matches expected", flush=True)
                for name in given.only.split(","):
                    figure = replay(broker.bootstrap_servers, name, case, matches, Path(folder))
                    print(figure, flush=True)
                    figures.append(figure)
        finally:
            broker.stop()
    if given.json:
        data = {"records": given.records, "machine": about, "figures": [figure.data() for figure in figures]}
        given.json.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return 0


def fill(servers: str, count: int) -> set[tuple[str, str]]:
    """Writes orders and payments in the order of time; returns the pairs that the join must find."""
    rng = random.Random(19)
    orders, payments, matches = [], [], set()
    for number in range(count):
        placed = START + number * HOUR // count
        paid = placed + rng.randrange(LATEST_PAYMENT)
        order, payment = f"o{number}", f"p{number}"
        orders.append((placed, order, order))
        payments.append((paid, payment, f"{payment} {order} a{rng.randrange(ACCOUNTS)}"))
        if paid - placed <= WINDOW:
            matches.add((order, payment))
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 50, **QUIET})
    for topic, rows in (("orders", orders), ("payments", sorted(payments))):
        create(servers, topic)
        for timestamp, key, value in rows:
            producer.produce(topic, value, key, timestamp=timestamp)
            producer.poll(0)
        producer.flush()
    return matches


def replay(servers: str, name: str, case: str, matches: set[tuple[str, str]], folder: Path) -> Figure:
    """Runs a variant until its results are complete, and compares them with the matches."""
    application = f"{name.replace(' ', '-')}-{case}"
    create(servers, f"{application}-out")
    program = (
        [sys.executable, str(HERE / "millstream_app.py")]
        if name.startswith("millstream")
        else ["java", "-cp", streams(), "Streams"]
    )
    arguments = [servers, application, case, "payments", str(folder / application), *VARIANTS[name]]
    said = folder / f"{application}.log"
    with running([*program, *arguments], said) as process:
        seconds = wait_until_complete(servers, application, process, said)
    results = [tuple(value.split()) for value in read(servers, f"{application}-out")]
    joined = Counter(pair for pair in results if pair[1] != "-")
    orders = Counter(order for order, _payment in results)
    notes = {
        "expected": len(matches),
        "false or repeated matches": joined.total() - len(matches & joined.keys()),
        "orders emitted twice": sum(times > 1 for times in orders.values()),
        "seconds to the last result": seconds,
    }
    figure = Figure(f"replay {case}", name, len(matches & joined.keys()), "matches", notes=notes)
    return figure.at_least(len(matches)) if name == "millstream" else figure


def wait_until_complete(servers: str, application: str, process: Popen[bytes], said: Path) -> float:
    """Waits until all input is committed and no topic of the application grows; returns the time of the last change."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": application, "enable.auto.commit": False, **QUIET})
    started = changed = time.monotonic()
    inputs = [TopicPartition(topic, number) for topic in INPUTS for number in range(PARTITIONS)]
    sizes: list[int] = []
    complete = False
    while not complete or time.monotonic() - changed < _UNCHANGED:
        time.sleep(_POLL)
        if process.poll() is not None or time.monotonic() - started > _TIMEOUT:
            raise SystemExit(said.read_text()[-2000:] or f"{application} has not finished")
        try:
            now = ends(consumer, results_of(consumer, application))
            total = sum(ends(consumer, INPUTS))
            done = sum(max(0, place.offset) for place in consumer.committed(inputs, 10))
        except KafkaException:  # a topic or the coordinator of the group is not ready yet
            continue
        if now != sizes:
            sizes, changed = now, time.monotonic()
        complete = any(now) and done >= total
    consumer.close()
    return changed - started


def results_of(consumer: Consumer, application: str) -> list[str]:
    """Returns the output topic of an application, and its repartition topics."""
    topics = consumer.list_topics(timeout=30).topics
    own = [topic for topic in topics if topic.startswith(f"{application}-")]
    return sorted(topic for topic in own if topic.endswith(("-out", "-repartition")))


def ends(consumer: Consumer, topics: Iterable[str]) -> list[int]:
    """Returns the end offset of each partition."""
    places = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    return [consumer.get_watermark_offsets(place, 30)[1] for place in places]


def read(servers: str, topic: str) -> Iterable[str]:
    """Yields the committed values of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    unread = set(range(PARTITIONS))
    while unread:
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                yield (message.value() or b"").decode()
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                raise KafkaException(error)
    consumer.close()


if __name__ == "__main__":
    sys.exit(main())
