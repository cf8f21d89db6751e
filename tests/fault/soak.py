"""Many kills: ``python -m tests.fault.soak [KILLS]``. Each round has an input and moments of its own, by its seed.

It prints the figures, as JSON, and ends with status 1 if anything was lost, duplicated, reordered or wrong, or if so
few kills were in the middle of a batch that it says nothing. The data of a round that went wrong is kept.
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

KILLS_OF_A_ROUND = 12
EARLY = 0.1
"""So many of the kills hit an instance that is just starting."""

POINTS = 0.2
"""So many of the lives lose workers or hosts at a failpoint before."""

LEAST_SHARE = 0.8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1000, help="of the first round")
    parser.add_argument("--keep", type=Path, default=None, help="where the data of rounds that went wrong is kept")
    parser.add_argument("--kafka", action="store_true", help="on a Kafka broker, which is killed, too, now and then")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="millstream-soak-")) if options.keep is None else options.keep
    base.mkdir(parents=True, exist_ok=True)
    tally, started, seed = Tally(), time.monotonic(), options.seed
    while tally.kills < options.kills:
        directory = base / f"seed-{seed}"
        wrong = len(tally.findings)
        kills = min(KILLS_OF_A_ROUND, options.kills - tally.kills)
        try:
            with on_kafka(directory) if options.kafka else contextlib.nullcontext() as read:
                run_round(directory / "data", seed, kills, tally, read)
        except AssertionError as error:
            tally.findings.append(f"seed {seed}: {error}")
        if len(tally.findings) == wrong:
            shutil.rmtree(directory)
        told = f"seed {seed}: {tally.kills} of {options.kills} kills, {len(tally.findings)} rounds wrong"
        print(told, json.dumps(tally.figures()), file=sys.stderr, flush=True)
        seed += 1
    figures = {**tally.figures(), "minutes": round((time.monotonic() - started) / 60, 1), "first seed": options.seed}
    print(json.dumps(figures, indent=2))
    if tally.findings:
        print(f"the data is in {base}", file=sys.stderr)
    elif options.keep is None:
        base.rmdir()
    return 1 if tally.findings or tally.share < LEAST_SHARE else 0


def run_round(directory: Path, seed: int, kills: int, tally: Tally, read: Read | None) -> None:
    """Runs one application to its end, with so many kills on the way; on Kafka, some at points of its commit."""
    smoke.fill(directory, seed)
    dice = random.Random(seed)
    lives: list[str | None] = [
        f"{dice.choice(WORKER_POINTS)}:4" if dice.random() < POINTS else None for _ in range(kills)
    ]
    if read is not None:
        lives += [f"{dice.choice(KAFKA)}:{dice.randint(1, 6)}" for _ in range(2)]
        dice.shuffle(lives)
    kill_and_restart(directory, seed, lives, tally, early=EARLY, read=read)


@contextlib.contextmanager
def on_kafka(directory: Path) -> Iterator[Read]:
    """A broker of its own for a round, which dies at random moments; gives what reads its topics."""
    from tests.kafka import independent

    from millstream.dev.broker import Broker

    broker, ended = Broker(directory / "broker"), threading.Event()

    def kill_now_and_then() -> None:
        dice = random.Random(str(directory))
        while not ended.wait(dice.uniform(30, 120)):
            broker.kill()
            broker.start()

    broker.start()
    os.environ["MILLSTREAM_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
    killer = threading.Thread(target=kill_now_and_then, daemon=True)
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
