"""A process that writes a made-up topic to PostgreSQL until it is killed. Its arguments: PORT DATABASE EPOCH."""

from __future__ import annotations

import random
import sys

from tests.connect.postgres.sink.sinks import KEYED, Task, after, writing

from millstream.connect.api import SinkRecord
from millstream.connect.postgres.client import Server

TOTAL = 20_000
KEYS = 300


def record(offset: int) -> SinkRecord:
    """The record at an offset: a value of one of the keys, or its delete."""
    key = offset * 7_919 % KEYS
    return SinkRecord("orders", 0, offset, key, None if offset % 5 == 0 else {"n": offset}, 0)


def rows() -> dict[int, int]:
    """The rows to which all records lead."""
    table: dict[int, int] = {}
    for offset in range(TOTAL):
        one = record(offset)
        if one.value is None:
            table.pop(one.key, None)
        else:
            table[one.key] = one.value["n"]
    return table


def follow(server: Server, epoch: int) -> None:
    """Writes from the recorded offset to the end."""
    draw = random.Random(epoch)
    with writing(server, KEYED, task=Task(epoch=epoch)) as writer:
        at = writer.positions([("orders", 0)]).get(("orders", 0), 0)
        while at < TOTAL:
            batch = [record(offset) for offset in range(at, min(TOTAL, at + draw.randrange(1, 60)))]
            writer.write(batch, after(batch))
            at += len(batch)


if __name__ == "__main__":
    follow(Server("127.0.0.1", sys.argv[2], "postgres", int(sys.argv[1])), int(sys.argv[3]))
