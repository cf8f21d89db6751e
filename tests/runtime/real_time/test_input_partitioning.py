"""The partitioning of input topics: checked where records reach state directly, or made by repartition topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import numbers_of, records_of

from millstream import App
from millstream.core.partitioning import partition_for
from millstream.errors import SetupError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.real_time.input_partitioning import CHECKED_AT_START, PartitioningCheck

KEYS = [f"k{number}".encode() for number in range(20)]


def counting(directory: Path, **config: Any) -> App:
    app = App("counts", config={"state.dir": str(directory), "execution.mode": "local", **config})
    app.stream("orders", value=str).group_by_key().count(store="counts").to_stream().to("counted", value=int)
    return app


def fill(log: Log, topic: str = "orders", *, shift: int = 0, partitions: int = 2) -> None:
    """Writes each key twice; a shift writes it to another partition than Kafka's producers."""
    log.create_topic(topic, partitions, exist_ok=True)
    for round_ in range(2):
        for key in KEYS:
            partition = (partition_for(key, partitions) + shift * round_) % partitions
            log.produce(topic, [ProducerRecord(key, b"x", round_, partition=partition)])


def test_a_topic_of_another_partitioner_stops_the_application(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, shift=1)
    with pytest.raises(SetupError, match=r"topic 'orders'.*offset \d+ of partition [01]") as raised:
        counting(tmp_path).run(until_caught_up=True)
    assert "input.partitioning=repartition" in (raised.value.hint or "")


def test_the_remedy_gives_the_right_results_after_the_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, shift=1)
    with pytest.raises(SetupError):
        counting(tmp_path).run(until_caught_up=True)
    counting(tmp_path, **{"input.partitioning": "repartition"}).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}


def test_repartitions_that_the_configuration_asks_for_are_described(tmp_path: Path) -> None:
    repartition = "orders-source-repartition"
    assert repartition in counting(tmp_path, **{"input.partitioning": "repartition"}).describe()
    assert repartition not in counting(tmp_path).describe()
    in_batches = {"input.partitioning": "repartition", "execution.mode": "micro_batch"}
    assert repartition not in counting(tmp_path, **in_batches).describe()


def test_a_topic_that_is_repartitioned_stays_so(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, shift=1)
    counting(tmp_path, **{"input.partitioning": "repartition"}).run(until_caught_up=True)
    fill(log, shift=1)
    counting(tmp_path).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2, 3, 4] for key in KEYS}


def test_a_trusted_topic_is_not_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, shift=1)
    counting(tmp_path, **{"input.partitioning": "trust"}).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 1] for key in KEYS}


def test_records_without_a_key_are_exempt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.produce("orders", [ProducerRecord(None, b"x", 5, partition=partition) for partition in (0, 1)])
    counting(tmp_path).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}


def test_topics_that_do_not_reach_state_are_not_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, shift=1)
    app = App("copy", config={"state.dir": str(tmp_path), "execution.mode": "local"})
    orders = app.stream("orders", value=str)
    orders.to("copied")
    orders.group_by(lambda _value: "all").count(store="all").to_stream().to("counted", value=int)
    app.run(until_caught_up=True)
    assert len(records_of(log, "copied")) == len(KEYS)
    assert numbers_of(log, "counted") == {b"all": list(range(1, 41))}


@pytest.mark.parametrize(("orders", "customers"), [(2, 4), (4, 2)])
def test_joined_topics_with_different_numbers_of_partitions_are_repartitioned(
    tmp_path: Path, orders: int, customers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    log = open_log(tmp_path)
    fill(log, "customers", partitions=customers)
    fill(log, partitions=orders)
    app = App("joins", config={"state.dir": str(tmp_path), "execution.mode": "local"})
    table = app.table("customers", value=str, store="customers")
    app.stream("orders", value=str).join(table, lambda order, customer: order + customer).to("joined")
    fewer = "orders" if orders < customers else "customers"
    assert "-repartition" not in app.describe()
    with app.start(until_caught_up=True) as handle:
        handle.wait()
        assert f"{fewer}-source-repartition" in handle.describe()
    assert {key: len(values) for key, values in records_of(log, "joined").items()} == dict.fromkeys(KEYS, 2)
    assert f"topic {fewer} has 2 partitions" in capfd.readouterr().err
    assert log.topic(f"joins-{fewer}-source-repartition").partitions == 4


def test_after_the_first_records_a_sample_is_checked() -> None:
    own = next(key for key in KEYS if partition_for(key, 2) == 0)
    other = next(key for key in KEYS if partition_for(key, 2) == 1)
    check = PartitioningCheck("orders", 0, 2)
    check.check(list(range(CHECKED_AT_START)), [own] * CHECKED_AT_START)
    check.check(list(range(1000)), [own, other, *[own] * 998])
    with pytest.raises(SetupError, match="offset 7"):
        check.check([7], [other])
