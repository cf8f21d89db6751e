"""Applications that start at the same time, in two threads or one right after the other. Java is not started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:  # a test that is killed leaves nothing behind
    pass
"""
SCRIPT = """
import sys
import threading

from millstream import App
from millstream.errors import SetupError
from millstream.core.failpoints import FAILPOINTS
from millstream.log import open_log
from millstream.runtime.spark import micro_batch


def no_cluster(*_arguments):
    raise SetupError("there is no cluster")


def start(name):
    app = App(name, config={"state.dir": sys.argv[1], "status": "none"})
    app.stream("in", value=str).group_by_key().count(store="counts")
    while name == "second" and "pyspark" not in sys.modules:
        pass  # until the thread of the first application has begun to import it
    try:
        app.start().wait()
    except SetupError:
        pass
    except BaseException as error:
        failed.append(repr(error))


micro_batch.open_session = no_cluster
with open_log(sys.argv[1]) as log:
    log.create_topic("in")
failed = []
for _ in range(5):
    FAILPOINTS.clear()  # modules that are imported again declare theirs again
    for module in [name for name in sys.modules if name.startswith(("pyspark", "millstream.runtime.spark."))]:
        if module not in {"millstream.runtime.spark.session", "millstream.runtime.spark.micro_batch"}:
            del sys.modules[module]
    threads = [threading.Thread(target=start, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(failed)
"""


@pytest.mark.slow
@pytest.mark.timeout(180)  # beside busy processes
def test_two_starts_at_once_beside_busy_processes(tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o700)
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 2)]
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "data")],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "JAVA_HOME": str(java.parents[1])},
        )  # fmt: skip
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert (done.stdout, done.stderr) == ("[]\n", "")
