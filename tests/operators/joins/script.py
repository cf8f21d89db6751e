"""A compact notation for the input and the output of a join, step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream import App, TestDriver


class Step(NamedTuple):
    """A record for one side of the join."""

    topic: str
    key: Any
    value: Any
    timestamp: int


def on_left(value: Any, timestamp: int, *, key: Any = "k") -> Step:
    """A record of the left side."""
    return Step("left", key, value, timestamp)


def on_right(value: Any, timestamp: int, *, key: Any = "k") -> Step:
    """A record of the right side."""
    return Step("right", key, value, timestamp)


def spell(value: Any) -> str:
    return "null" if value is None else str(value)


def dashed(left: Any, right: Any) -> str:
    """The joiner of most tests: ``A-a``, with null for None."""
    return f"{spell(left)}-{spell(right)}"


def play(driver: TestDriver, *steps: Step, topic: str = "out", keys: bool = False) -> dict[int, str]:
    """Pipes the steps; returns the output of each step by its number, from 1: ``value@timestamp, …``."""
    output = driver.output(topic)
    outputs = {}
    for number, step in enumerate(steps, start=1):
        driver.input(step.topic).pipe(step.key, step.value, timestamp=step.timestamp)
        records = output.read_all()
        if records:
            texts = [f"{spell(r.key)}:" * keys + f"{spell(r.value)}@{r.timestamp}" for r in records]
            outputs[number] = ", ".join(texts)
    return outputs


def run(app: App, *steps: Step, topic: str = "out", keys: bool = False) -> dict[int, str]:
    """Plays the steps with a new driver."""
    with TestDriver(app) as driver:
        return play(driver, *steps, topic=topic, keys=keys)


IN_ORDER = (
    on_left(None, 1),
    on_right(None, 2),
    on_left("A", 3),
    on_right("a", 4),
    on_left("B", 5),
    on_right("b", 6),
    on_left(None, 7),
    on_right(None, 8),
    on_left("C", 9),
    on_right("c", 10),
    on_right(None, 11),
    on_left(None, 12),
    on_right(None, 13),
    on_right("d", 14),
    on_left("D", 15),
)
"""The table of Kafka Streams' documentation: the number of a step is its timestamp."""

OUT_OF_ORDER = (
    *IN_ORDER[:13],
    on_right("d", 7),
    on_left("D", 6),
    on_left(None, 2),
    on_right(None, 3),
    on_right("e", 14),
    on_left("E", 15),
    on_left(None, 10),
    on_right(None, 9),
    on_left("F", 4),
    on_right("f", 3),
)
"""The input of Kafka Streams' own join tests: from step 14 on, records come out of order."""
