"""A soak test with many kills: ``python -m tests.fault.soak [KILLS] [--kafka] [--real-time]``.

The seed of a round determines its input and the times of its kills. The test prints its figures as JSON. It ends with
status 1 if records were lost, duplicated, reordered or wrong, or if too few kills were in the middle of a batch. The
data of a round with errors is kept. In real-time execution, single workers are killed, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fault import smoke
from tests.fault.killing import WORKER_POINTS, Tally, kill_and_restart
from tests.fault.model import Read
from tests.fault.points import KAFKA
from tests.fault.real_time import AT_ONCE
from tests.fault.real_time_killing import RealTimeInstance, random_point

KILLS_OF_A_ROUND = 12
LIVES_OF_A_ROUND = 5
"""In real-time execution. Single workers are killed meanwhile, and these kills count, too."""

EARLY = 0.1
"""The share of kills before the first commit of an instance."""

POINTS = 0.2
"""The share of instances whose workers or hosts crash at a failpoint before the kill."""

LEAST_SHARE = 0.8
MOST_ERRORS = 5
"""The number of rounds with errors after which it ends: an application that cannot start is never killed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1000, help="of the first round")
    parser.add_argument("--keep", type=Path, default=None, help="directory for the data of rounds with errors")
    parser.add_argument("--kafka", action="store_true", help="use a Kafka broker, which is killed at random times, too")
    parser.add_argument("--real-time", action="store_true", help="execute in real time, and kill single workers, too")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="millstream-soak-")) if options.keep is None else options.keep
    base.mkdir(parents=True, exist_ok=True)
    tally, started, seed = Tally(), time.monotonic(), options.seed
    while tally.kills < options.kills and len(tally.findings) < MOST_ERRORS:
        directory = base / f"seed-{seed}"
        errors = len(tally.findings)
        kills = options.kills - tally.kills
        try:
            with on_kafka(directory) if options.kafka else contextlib.nullcontext() as read:
                run = run_real_time_round if options.real_time else run_round
                run(directory / "data", seed, kills, tally, read)
        except AssertionError as error:
            tally.findings.append(f"seed {seed}: {error}")
        if len(tally.findings) == errors:
            shutil.rmtree(directory)
        line = f"seed {seed}: {tally.kills} of {options.kills} kills, {len(tally.findings)} rounds with errors"
        print(line, json.dumps(tally.figures()), file=sys.stderr, flush=True)
        seed += 1
    figures = {**tally.figures(), "minutes": round((time.monotonic() - started) / 60, 1), "first seed": options.seed}
    print(json.dumps(figures, indent=2))
    if tally.findings:
        print(f"the data is in {base}", file=sys.stderr)
    elif options.keep is None:
        base.rmdir()
    return 1 if tally.findings or tally.share < LEAST_SHARE else 0


def run_round(directory: Path, seed: int, kills: int, tally: Tally, read: Read | None) -> None:
    """Runs an application to its end, with kills; on Kafka, also with crashes at failpoints of its commit.

    Args:
        directory: Its data directory.
        seed: Of the input, and of the kills.
        kills: The number of kills that are wanted at most.
        tally: Counts the outcomes.
        read: Reads the topics of a broker.
    """
    smoke.fill(directory, seed)
    dice = random.Random(seed)
    lives: list[str | None] = [
        f"{dice.choice(WORKER_POINTS)}:4" if dice.random() < POINTS else None
        for _ in range(min(KILLS_OF_A_ROUND, kills))
    ]
    if read is not None:
        lives += [f"{dice.choice(KAFKA)}:{dice.randint(1, 6)}" for _ in range(2)]
        dice.shuffle(lives)
    kill_and_restart(directory, seed, lives, tally, early=EARLY, read=read)


def run_real_time_round(directory: Path, seed: int, kills: int, tally: Tally, read: Read | None) -> None:
    """The same in real-time execution. The workers of some instances crash at a failpoint, again and again."""
    smoke.fill(directory, seed, at_once=AT_ONCE)
    dice = random.Random(seed)
    lives = [
        random_point(dice, kafka=read is not None) if dice.random() < POINTS else None
        for _ in range(min(LIVES_OF_A_ROUND, kills))
    ]
    kill_and_restart(directory, seed, lives, tally, early=EARLY, read=read, kind=RealTimeInstance)


@contextlib.contextmanager
def on_kafka(directory: Path) -> Iterator[Read]:
    """Starts a broker for a round, and kills it at random times; yields a function that reads its topics."""
    from tests.kafka import independent

    from millstream.dev.broker import Broker

    broker, ended = Broker(directory / "broker"), threading.Event()

    def kill_at_random() -> None:
        dice = random.Random(str(directory))
        while not ended.wait(dice.uniform(30, 120)):
            broker.kill()
            broker.start()

    broker.start()
    os.environ["MILLSTREAM_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
    killer = threading.Thread(target=kill_at_random, daemon=True)
    killer.start()
    try:
        yield independent.reader(broker.bootstrap_servers)
    finally:
        ended.set()
        killer.join()
        del os.environ["MILLSTREAM_BOOTSTRAP_SERVERS"]
        broker.kill()


if __name__ == "__main__":
    sys.exit(main())
