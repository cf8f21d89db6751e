"""Connectors on a cluster: positions of sources are in the transactions of their records."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.connect.killing import POINTS, kill_often

from millstream.dev.broker import Broker
from millstream.log.kafka import KafkaLog

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(300)
def test_every_record_passes_once_when_processes_are_killed(tmp_path: Path, broker: Broker, log: KafkaLog) -> None:
    """The fixture of the log deletes the topics."""
    kill_often(tmp_path, POINTS, 2, broker.bootstrap_servers)
