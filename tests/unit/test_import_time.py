"""`import millstream` loads no large module and starts no process. bench/ measures its time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "asyncio",
    "confluent_kafka",
    "fastapi",
    "http.client",
    "msgspec",
    "multiprocessing",
    "numpy",
    "pandas",
    "py4j",
    "pyarrow",
    "pydantic",
    "pyspark",
    "sqlglot",
    "sqlite3",
    "starlette",
    "subprocess",
    "typer",
    "unittest",
    "urllib.request",
}

# An audit hook reports every way to start a process, including a JVM.
PROBE = """
import json, sys
before = set(sys.modules)
started = []
starts = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system")
sys.addaudithook(lambda event, args: started.append(event) if event in starts else None)
import millstream
print(json.dumps({"imported": sorted(set(sys.modules) - before), "started": started}))
"""


PROCESSES = ["millstream.runtime.host.server", "millstream.runtime.spark.source", "millstream.runtime.spark.proxy"]


@pytest.mark.parametrize("module", PROCESSES)
def test_the_processes_of_an_application_do_not_load_pandas(module: str) -> None:
    probe = f"import sys, {module}; print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "False"]


def test_import_loads_nothing_heavy_and_starts_no_process() -> None:
    run = subprocess.run([sys.executable, "-I", "-c", PROBE], capture_output=True, text=True, check=True)
    seen = json.loads(run.stdout)
    assert HEAVY.isdisjoint(seen["imported"])
    assert seen["started"] == []
