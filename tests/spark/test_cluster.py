"""The application of the kill tests on a cluster, whose executors are separate processes: one of them is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.killing import Instance, processes, wait_until_gone
from tests.spark.cluster import JAVA, standalone_cluster

from millstream.log import ProducerRecord, open_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED = 30


def test_an_executor_is_killed_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    smoke.fill(directory, SEED)
    dice = random.Random(SEED)
    with standalone_cluster(tmp_path) as cluster:
        options = ["--batch", "2500", "--set", f"spark.master={cluster.url}", "--set", "spark.executor.memory=600m"]
        options += ["--set", f"spark.executor.extraJavaOptions={JAVA}"]
        with Instance(directory, *options) as instance:
            for lost in range(2):
                instance.wait_for_batches(2)
                instance.wait_for(lambda: instance.in_batch and len(cluster.executors()) == 2, "a batch on both")
                os.kill(dice.choice(cluster.executors()), signal.SIGKILL)
                instance.wait_for(lambda n=lost: instance.lost_executors() > n, "Spark's report")  # type: ignore[misc]
            assert instance.wait() == 0, instance.output()
            instance.seconds_until_gone()
    wait_until_gone(cluster.mark)
    findings = model.verify(directory, SEED)
    assert not findings, str(findings)


SCRIPT = """
import sys
from millstream import App

app = App("lasting", config={"state.dir": sys.argv[1], "status": "none", "spark.master": sys.argv[2]})
app.stream("in", key=str, value=str).group_by_key().count(store="counts")
handle = app.start()
input()
assert handle.stop(timeout=10)
print("stopped", flush=True)
input()  # Spark lives on
"""


def test_executors_that_take_all_cores_have_a_host_for_each_which_ends_with_the_application(tmp_path: Path) -> None:
    """Also if the Spark session stays open and executors have another directory for sockets, as on another machine."""
    directory = tmp_path / "data"
    with open_log(directory) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(b"k%d" % n, b"v") for n in range(100)])
    with (
        tempfile.TemporaryDirectory(prefix="other-") as other,  # tmp_path is too long for sockets
        standalone_cluster(tmp_path, workers=1, cores=2, TMPDIR=other) as cluster,
    ):
        started = partial(processes, cluster.mark, "-m millstream.runtime.host", other)
        command = [sys.executable, "-c", SCRIPT, str(directory), cluster.url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                wait_for(lambda: len(started()) == 2, "two hosts", 240)
                wait_for((directory / "applications/lasting/checkpoint/commits/0").exists, "a batch", 150)
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("\n")
                process.stdin.flush()
                assert process.stdout.readline() == "stopped\n"
                wait_for(lambda: not started(), "the end of the hosts", 15)
                assert cluster.executors(), "Spark lives on"
                process.stdin.write("\n")
            finally:
                process.terminate()


def wait_for(condition: Callable[[], bool], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
