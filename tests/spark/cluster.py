"""A standalone Spark cluster on this machine: a master and workers, each a separate process, on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyspark
from tests.fault.killing import MARK
from tests.processes import running

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a fast start of Java: the processes run for a short time."""


class Cluster:
    """A running cluster.

    Attributes:
        url: The value of `spark.master`.
        workers: The processes of the workers.
        mark: A value in the environment of all processes of the cluster.
    """

    def __init__(self, url: str, workers: list[subprocess.Popen[bytes]], mark: str) -> None:
        self.url = url
        self.workers = workers
        self.mark = mark

    def executors(self) -> list[int]:
        """The processes of the executors that the workers have started."""
        own = {worker.pid for worker in self.workers}
        started = (process for process in running().values() if process.parent in own)
        return [process.pid for process in started if "CoarseGrainedExecutorBackend" in process.command]


@contextlib.contextmanager
def standalone_cluster(directory: Path, workers: int = 2, cores: int = 1, **environ: str) -> Iterator[Cluster]:
    """Starts a cluster, and stops it at the end. `cores` is for each worker, `environ` extends their environment."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(directory / "work"),
        MARK: (mark := uuid.uuid4().hex),
        **environ,
    }
    port, processes = _free_port(), []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with Path(directory / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), *arguments]
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        processes.append(process)
        return process

    try:
        url = f"spark://127.0.0.1:{port}"
        web = str(_free_port())
        start(
            "master", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", str(port), "--webui-port", web,
        )  # fmt: skip
        _wait_for(directory / "master.log", "I have been elected leader")
        started = [
            start(
                f"worker{number}", "org.apache.spark.deploy.worker.Worker",
                "--host", "127.0.0.1", "-c", str(cores), "-m", "1500M", "-d", str(directory / f"worker{number}"),
                "--webui-port", str(_free_port()), url,
            )
            for number in range(workers)
        ]  # fmt: skip
        for number in range(workers):
            _wait_for(directory / f"worker{number}.log", "Successfully registered with master")
        yield Cluster(url, started, mark)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(path: Path, text: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and text in path.read_text(errors="replace"):
            return
        time.sleep(0.1)
    raise AssertionError(f"{path.name} does not say {text!r}:\n{path.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
