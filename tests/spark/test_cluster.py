"""Applications on a cluster, whose executors are separate processes: their task hosts, and the kill of an executor."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from tests.fault import model, slow_daemon, smoke
from tests.fault.killing import Instance, processes, wait_until_gone
from tests.fault.real_time import AT_ONCE
from tests.fault.real_time_killing import RealTimeInstance, settings
from tests.processes import below, open_files
from tests.spark.cluster import JAVA, Cluster, standalone_cluster

from millstream.log import ProducerRecord, open_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED, PER_KEY, PER_KEY_IN_REAL_TIME = 30, 300, 120

SCRIPT = """
import sys
from millstream import App

directory, master, java = sys.argv[1:]
config = {"state.dir": directory, "status": "none", "spark.master": master, "spark.executor.extraJavaOptions": java}
app = App("lasting", config=config)
app.stream("in", key=str, value=str).group_by_key().count(store="counts")
handle = app.start()
input()
assert handle.stop(timeout=10)
print("stopped", flush=True)
input()  # Spark lives on
"""


def test_executors_have_a_host_for_each_core_and_are_replaced_after_a_kill_in_both_executions(tmp_path: Path) -> None:
    """Executors have another directory for sockets than the driver, as on another machine."""
    with (
        tempfile.TemporaryDirectory(prefix="other-") as other,  # tmp_path is too long for sockets
        standalone_cluster(tmp_path, workers=1, cores=2, TMPDIR=other) as cluster,
    ):
        check_the_hosts_of_an_executor_with_all_cores(tmp_path / "lasting", cluster, other)
        check_results_after_the_kill_of_an_executor(tmp_path / "data", cluster)
        check_results_after_a_worker_has_moved_to_another_executor(tmp_path / "real-time", cluster)
    wait_until_gone(cluster.mark)


def check_the_hosts_of_an_executor_with_all_cores(directory: Path, cluster: Cluster, temporary: str) -> None:
    """There is one for each core. They end with the application, also if the Spark session stays open."""
    with open_log(directory) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(b"k%d" % n, b"v") for n in range(100)])
    started = partial(processes, cluster.mark, "-m millstream.runtime.host", temporary)
    command = [sys.executable, "-c", SCRIPT, str(directory), cluster.url, JAVA]
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
            assert len(cluster.executors()) == 1, "Spark lives on"
            process.stdin.write("\n")
        finally:
            process.terminate()


def check_results_after_the_kill_of_an_executor(directory: Path, cluster: Cluster) -> None:
    """The application of the kill tests has two executors, with one core each."""
    smoke.fill(directory, SEED, PER_KEY)
    with Instance(directory, "--batch", "1000", *settings(two_executors(cluster))) as instance:
        instance.wait_for_batches(2)
        instance.wait_for(lambda: instance.in_batch and len(cluster.executors()) == 2, "a batch on both")
        os.kill(random.Random(SEED).choice(cluster.executors()), signal.SIGKILL)
        instance.wait_for(lambda: instance.lost_executors() > 0, "Spark's report")
        assert instance.wait() == 0, instance.output()
        instance.seconds_until_gone()
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def two_executors(cluster: Cluster) -> dict[str, object]:
    """The configuration of an application with two executors, which have one core each."""
    return {
        "spark.master": cluster.url,
        "spark.executor.memory": "600m",
        "spark.executor.cores": 1,
        "spark.executor.extraJavaOptions": JAVA,
    }


def check_results_after_a_worker_has_moved_to_another_executor(directory: Path, cluster: Cluster) -> None:
    """In real-time execution. The other executor has no local stores of the worker, as on another machine."""
    smoke.fill(directory, SEED, PER_KEY_IN_REAL_TIME, at_once=AT_ONCE)
    real_time = {
        "execution.mode": "real_time",
        "num.workers": 2,
        "commit.interval.ms": 20,
        "status": "text",
        "spark.python.daemon.module": slow_daemon.__name__,
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with RealTimeInstance(directory, *settings({**real_time, **two_executors(cluster)})) as instance:
        instance.wait_for_batches(3)
        executors = set(cluster.executors())
        killed = random.Random(SEED).choice(sorted(executors))
        stores = local_stores(directory, [killed])
        assert stores
        assert stores < local_stores(directory, executors), "the other executor has a worker, too"
        os.kill(killed, signal.SIGKILL)
        assert instance.in_batch
        instance.wait_for(lambda: instance.losses() > 0, "the driver's notice", 30)
        for store in stores:
            store.unlink(missing_ok=True)
        instance.wait_for(
            lambda: local_stores(directory, set(cluster.executors()) - executors) >= stores, "the same tasks", 60
        )
        assert instance.wait() == 0, instance.output()
        assert instance.losses() == 1, "the other worker went on"
        instance.seconds_until_gone()
    findings = model.verify(directory, SEED, PER_KEY_IN_REAL_TIME)
    assert not findings, str(findings)


def local_stores(directory: Path, executors: Iterable[int]) -> set[Path]:
    """The files of local stores that the workers of executors have open."""
    processes = [process.pid for executor in executors for process in below(executor)]
    return {file for pid in processes for file in open_files(pid) if directory / "applications" in file.parents}


def wait_for(condition: Callable[[], bool], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.2)
