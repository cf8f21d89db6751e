"""The examples run unchanged on a cluster that the environment variables name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.test_on_spark import check, examples, run_on_spark, run_without_spark

from millstream.dev.broker import Broker
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def cluster(broker: Broker, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "data"))


@examples
def test_without_spark(example: str) -> None:
    check(example, run_without_spark)


@pytest.mark.spark
def test_on_spark() -> None:
    check("word_count", run_on_spark)
