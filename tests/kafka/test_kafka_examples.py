"""The examples run on a cluster as they are: the environment says where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.loading import app_of
from tests.examples.test_on_spark import Open, check, examples
from tests.runtime.local import LocalRun

from millstream.dev.broker import Broker
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def cluster(broker: Broker, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "data"))


@examples
def test_without_spark(example: str) -> None:
    def run() -> Open:
        with LocalRun(app_of(example)) as local:
            local.run()
        return app_of(example).store

    check(example, run)


@pytest.mark.spark
def test_on_spark() -> None:
    def run() -> Open:
        handle = app_of("word_count").start(until_caught_up=True)
        handle.wait()
        return handle.store

    check("word_count", run)
