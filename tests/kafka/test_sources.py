"""Both sources that read the topics of a cluster on Spark pass the same tests."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.killing import LAST, Instance
from tests.kafka import independent
from tests.kafka.conftest import running
from tests.kafka.connector import connector_jars
from tests.kafka.test_kafka_faults import OPTIONS, PROPERTIES

from millstream.core.failpoints import EXIT_STATUS
from millstream.dev.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200)]

SEED, PER_KEY = 77, 60


@pytest.fixture(scope="module")
def connector() -> list[Path] | str:
    """The connector's jars, or the reason why there are none."""
    return connector_jars()


@pytest.fixture
def jars(connector: list[Path] | str) -> str:
    """The paths of the connector's jars, with commas between them."""
    if isinstance(connector, str):
        pytest.skip(connector)
    return ",".join(map(str, connector))


def test_each_source_passes_the_source_suite(connector: list[Path] | str, tmp_path: Path) -> None:
    jars, passed = (
        ("", "9 passed, 1 skipped") if isinstance(connector, str) else (",".join(map(str, connector)), "13 passed")
    )
    suite = Path(__file__).with_name("source_suite.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}", str(suite)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment["MILLSTREAM_TEST_JARS"] = jars
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(f"^{passed}", done.stdout, re.MULTILINE), done.stdout[-500:]


def test_with_the_connector_results_are_exactly_once(
    jars: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, dice = tmp_path / "data", random.Random(SEED)
    options = (*OPTIONS, "--set", "kafka.source=connector", "--set", f"spark.jars={jars}", "--batch", "150")
    with running(Broker(tmp_path / "broker", properties=PROPERTIES)) as broker:
        monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        smoke.fill(directory, SEED, PER_KEY)
        with Instance(directory, *options, point="kafka.publish.during-commit:8") as instance:
            instance.wait_for(lambda: instance.in_batch, "a batch")
            broker.kill()
            time.sleep(dice.random())
            broker.start()
            assert instance.wait() == EXIT_STATUS, instance.output()
        with Instance(directory, *options, *LAST) as instance:
            assert instance.wait() == 0, instance.output()
            instance.seconds_until_gone()
        findings = model.verify(directory, SEED, PER_KEY, read=independent.reader(broker.bootstrap_servers))
        assert not findings, str(findings)
