"""`doctor` reports topics whose retention deletes records that are not yet read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from millstream import App
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

DAY = 24 * 60 * 60 * 1000
WEEK = {"retention.ms": str(7 * DAY)}


def retention(millstream: Run) -> list[dict[str, Any]]:
    return [check for check in millstream("doctor", "-o", "json").lines if check["name"] == "retention"]


def produce(data: Path, topic: str, *ages_in_days: float) -> None:
    now = int(time.time() * 1000)
    with open_log(data) as log:
        log.produce(topic, [ProducerRecord(b"k", b"v", now - int(age * DAY)) for age in ages_in_days])


def create(data: Path, topic: str, config: dict[str, str]) -> None:
    with open_log(data) as log:
        log.create_topic(topic, 1, config)


def read_all(data: Path) -> None:
    app = App("shop", config={"state.dir": str(data), "log.cleanup.interval.ms": 0})
    app.stream("orders", value=str).to("copies")
    with InProcessRun(app) as run:
        run.run()


def test_topics_with_unlimited_retention_pass(millstream: Run, data: Path) -> None:
    assert retention(millstream) == []  # there is no log yet
    create(data, "orders", {})
    create(data, "prices", {"cleanup.policy": "compact", **WEEK})
    produce(data, "orders", 1000)
    (check,) = retention(millstream)
    assert (check["status"], check["found"]) == ("ok", "topics keep their records without limit")


def test_unread_records_beyond_retention_are_reported(millstream: Run, data: Path) -> None:
    create(data, "orders", WEEK)
    produce(data, "orders", 1000, 900, 8, 6, 0)
    (check,) = retention(millstream)
    assert check["status"] == "warn"
    assert check["found"] == (
        "orders: 3 records can be deleted at any moment, and no application has read them; "
        "it keeps records for 7d by their timestamps, read or not"
    )
    assert check["fix"] == "millstream topics alter orders --config retention.ms=-1 --config retention.bytes=-1"
    assert millstream(*check["fix"].split()[1:]).code == 0
    assert [check["status"] for check in retention(millstream)] == ["ok"]


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (WEEK, "records for 7d by their timestamps"),
        ({"retention.bytes": "1000"}, "1000 B of each partition"),
        ({**WEEK, "retention.bytes": "1000"}, "records for 7d by their timestamps and 1000 B of each partition"),
    ],
)
def test_an_application_far_behind_is_reported(millstream: Run, data: Path, config: dict[str, str], limit: str) -> None:
    create(data, "orders", config)
    produce(data, "orders", 6)
    read_all(data)
    (check,) = retention(millstream)
    assert (check["status"], check["found"]) == (
        "ok",
        f"no application is far behind; a new one reads only what is kept: orders keeps {limit}",
    )
    produce(data, "orders", *[6] * 9)
    (check,) = retention(millstream)
    assert check["status"] == "warn"
    assert check["found"].startswith("orders: application 'shop' has not read ")
    assert check["found"].endswith(f" records that can be deleted soon; it keeps {limit}, read or not")


def test_an_application_slightly_behind_is_not_reported(millstream: Run, data: Path) -> None:
    create(data, "orders", WEEK)
    produce(data, "orders", 6)
    read_all(data)
    produce(data, "orders", 1, 0)
    assert [check["status"] for check in retention(millstream)] == ["ok"]


def test_a_consumer_group_is_checked_as_well(millstream: Run, data: Path) -> None:
    create(data, "orders", WEEK)
    produce(data, "orders", 6, 6, 6)
    millstream("consume", "orders", "--group", "checks", "--from-beginning", "--max-records", "1")
    (check,) = retention(millstream)
    assert "group 'checks' has not read 2 records that can be deleted soon" in check["found"]


def test_alter_changes_the_configuration_of_a_topic(millstream: Run, data: Path) -> None:
    create(data, "orders", WEEK)
    changed = millstream("topics", "alter", "orders", "-c", "cleanup.policy=compact", "--default", "retention.ms")
    assert changed == (0, "", "topic orders: cleanup.policy=compact\n")
    assert "config: cleanup.policy=compact\n" in millstream("topics", "describe", "orders").out
    assert millstream("topics", "alter", "orders").code == 2
    assert "there is no topic 'ordrs'" in millstream("topics", "alter", "ordrs", "-c", "retention.ms=1").err
    assert "retention.m" in millstream("topics", "alter", "orders", "-c", "retention.m=1").err
