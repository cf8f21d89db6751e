"""Topics and partitions that come while an application runs in workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import numbers_of, records_of, wait_for

from millstream import App
from millstream.errors import SetupError
from millstream.log import Log, ProducerRecord, open_log

KEYS = [f"k{number}".encode() for number in range(10)]


def application(directory: Path, **config: Any) -> App:
    return App("growing", config={"state.dir": str(directory), "execution.mode": "local", "status": "none", **config})


def counting(directory: Path, **config: Any) -> App:
    app = application(directory, **config)
    app.stream("orders", value=str).group_by_key().count(store="counts").to_stream().to("counted", value=int)
    return app


def produce(log: Log, topic: str) -> None:
    log.produce(topic, [ProducerRecord(key, b"x", number) for number, key in enumerate(KEYS)])


def read(log: Log, topic: str) -> int:
    return sum(map(len, records_of(log, topic).values()))


def test_a_topic_that_matches_a_pattern_is_read_from_its_first_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("orders-a", 1)
    produce(log, "orders-a")
    app = application(tmp_path, **{"auto.offset.reset": "latest"})
    app.stream(pattern="orders-.*", value=str).to("out")
    with app.start():
        wait_for(lambda: bool(log.committed("growing")))
        log.create_topic("orders-b", 2)
        produce(log, "orders-b")
        wait_for(lambda: read(log, "out") == len(KEYS))
        produce(log, "orders-a")
        wait_for(lambda: read(log, "out") == 2 * len(KEYS))


def test_new_partitions_are_read_without_state_and_behind_a_repartition(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("orders", 1)
    produce(log, "orders")
    app = application(tmp_path)
    orders = app.stream("orders", value=str)
    orders.to("copied")
    orders.group_by(lambda _value: "all").count(store="all").to_stream().to("counted", value=int)
    with app.start():
        wait_for(lambda: numbers_of(log, "counted") == {b"all": list(range(1, 11))})
        log.add_partitions("orders", 3)
        produce(log, "orders")
        wait_for(lambda: numbers_of(log, "counted") == {b"all": list(range(1, 21))})
    assert read(log, "copied") == 2 * len(KEYS)


def test_new_partitions_of_a_topic_that_reaches_state_stop_the_application(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("orders", 2)
    produce(log, "orders")
    handle = counting(tmp_path).start()
    wait_for(lambda: read(log, "counted") == len(KEYS))
    log.add_partitions("orders", 4)
    produce(log, "orders")
    with pytest.raises(SetupError, match="topic 'orders' has 4 partitions") as raised:
        handle.wait()
    assert "input.partitioning=repartition" in (raised.value.hint or "")
    with pytest.raises(SetupError, match="topic 'orders' has 4 partitions"):
        counting(tmp_path).run(until_caught_up=True)
    counting(tmp_path, **{"input.partitioning": "repartition"}).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}


def test_the_start_position_is_decided_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("orders", 1)
    produce(log, "orders")
    counting(tmp_path, **{"auto.offset.reset": "latest"}).run(until_caught_up=True)
    produce(log, "orders")
    counting(tmp_path, **{"auto.offset.reset": "latest"}).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1] for key in KEYS}
