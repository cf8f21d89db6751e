"""A real broker for each test process, and its log."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.kafka.opening import open_kafka_log

from millstream.dev.broker import Broker
from millstream.errors import SetupError
from millstream.log.kafka import KafkaLog


@contextmanager
def running(broker: Broker) -> Iterator[Broker]:
    """Starts a broker for tests that need their own, and deletes its data afterwards."""
    try:
        broker.start()
    except SetupError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"there is no Kafka broker here: {error.message}")
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(broker.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker. Without its jars, tests are skipped, except on CI."""
    # The cleaner of the broker runs every five minutes, and must not delete old records in the middle of a test.
    # Also the first check, which would be 30 s after the start.
    # On a loaded machine, heartbeats come late: the broker must not be fenced by its own controller.
    properties = {
        "log.retention.check.interval.ms": "86400000",
        "log.initial.task.delay.ms": "86400000",
        "broker.session.timeout.ms": "5000",
    }
    with running(Broker(tmp_path_factory.mktemp("broker"), properties=properties)) as broker:
        yield broker


@pytest.fixture
def log(broker: Broker, tmp_path: Path) -> Iterator[KafkaLog]:
    """The log of the broker, without any topics or groups."""
    with open_kafka_log({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "data") as log:
        yield log
        if names := [topic.name for topic in log.topics()]:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            for deleted in admin.delete_topics(names).values():
                deleted.result(60)
            deadline = time.monotonic() + 60
            while log.topics():
                assert time.monotonic() < deadline, "topics are still there"
                time.sleep(0.02)
        for group in log.groups():
            log.delete_group(group)


@pytest.fixture
def other(broker: Broker, tmp_path: Path) -> Iterator[KafkaLog]:
    """The same log, as opened by another process."""
    with open_kafka_log({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "other") as log:
        yield log
