"""The end of a script, after the text of `kinds`: runs an application of each value type and prints its topics."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kinds_beside  # type: ignore[import-not-found]
import kinds_installed.types  # type: ignore[import-not-found]
from tests.fault.hosted import HostedRun

from millstream import App, TestDriver
from millstream.log import ProducerRecord, open_log

if TYPE_CHECKING:
    from tests.runtime.kinds import KINDS, Kind  # noqa: TC004  (they are above, in the script)

PLACES = {"script": KINDS, "beside": kinds_beside.KINDS, "installed": kinds_installed.types.KINDS}
ALL: dict[str, Kind] = {f"{place}.{name}": kind for place, kinds in PLACES.items() for name, kind in kinds.items()}
Kinds = dict[str, Kind]


def a_third() -> Kinds:
    """Each value type in one of the places. An application on Spark with all of them takes long to start."""
    places = zip(KINDS, cycle(PLACES.items()), strict=False)
    return {f"{place}.{name}": kinds[name] for name, (place, kinds) in places}


def outputs_of(kinds: Kinds) -> list[str]:
    return [f"{name}.{what}" for name in kinds for what in ("last", "counts")]


def build(directory: str, kinds: Kinds) -> App:
    app = App(
        "kinds",
        deserialization_exception_handler="continue",
        errors_dead_letter_queue_topic_name="dead",
        config={"state.dir": directory, "status": "none"},
    )
    for name, kind in kinds.items():
        stream = app.stream(f"{name}.in", key=str, value=kind.type)
        last = stream.group_by_key().reduce(changed(kind), store=f"{name}.store")
        last.to_stream().map_values(kind.change, value=kind.type).to(f"{name}.last")
        # The key changes, so this function runs in the read stage; and values are keys of a store.
        grouped = stream.group_by(changed(kind), key=kind.type)
        grouped.count(store=f"{name}.counted").to_stream().to(f"{name}.counts")
    return app


def changed(kind: Kind) -> Callable[[Any, Any], Any]:
    return lambda _other, value: kind.change(value)


def records_of(kind: Kind) -> list[bytes]:
    return [*kind.records, kind.invalid, *kind.records]


def in_driver(directory: str, kinds: Kinds) -> dict[str, list[Any]]:
    with TestDriver(build(directory, kinds)) as driver:
        for name, kind in kinds.items():
            for value in records_of(kind):
                driver.input(f"{name}.in", key=bytes, value=bytes).pipe(name.encode(), value)
        topics = {
            topic: driver.output(topic, key=bytes, value=bytes).read_all() for topic in (*outputs_of(kinds), "dead")
        }
    return {topic: [(record.key, record.value) for record in records] for topic, records in topics.items()}


def on_log(directory: str, kinds: Kinds, way: str) -> dict[str, list[Any]]:
    with open_log(directory) as log:
        for name, kind in kinds.items():
            log.create_topic(f"{name}.in")
            log.produce(f"{name}.in", [ProducerRecord(name.encode(), value, 0) for value in records_of(kind)])
        app = build(directory, kinds)
        if way == "spark":
            app.run(until_caught_up=True)
        else:
            with HostedRun(app, records=1_000) as run:
                run.run()
        ends = log.ends([*outputs_of(kinds), "dead"])
        tables = {topic: log.read(topic, 0, 0, ends[topic][0]) for topic in ends}
    return {
        topic: list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        for topic, table in tables.items()
    }


if __name__ == "__main__":
    _, data, *ways = sys.argv
    chosen = a_third() if "spark" in ways else ALL
    results = {way: in_driver(data, chosen) if way == "driver" else on_log(data, chosen, way) for way in ways}
    texts = {
        way: {topic: [[part.decode() for part in record] for record in records] for topic, records in topics.items()}
        for way, topics in results.items()
    }
    Path(data, "results.json").write_text(json.dumps(texts), encoding="utf-8")
