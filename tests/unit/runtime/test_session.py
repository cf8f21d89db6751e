"""Decisions about Spark sessions, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.config import Config
from millstream.errors import ConfigError
from millstream.runtime.host.process_identity import owner_record
from millstream.runtime.spark import session as module
from millstream.runtime.spark.session import executor_cores, open_session


class Executors:
    """The executors that Spark reports at each call."""

    def __init__(self, *cores: list[int]) -> None:
        self._cores = list(cores)

    def executorList(self, _active: bool) -> Any:  # noqa: N802
        cores = [0, *(self._cores.pop(0) if len(self._cores) > 1 else self._cores[0])]  # the driver has no cores
        return SimpleNamespace(size=lambda: len(cores), apply=lambda n: SimpleNamespace(totalCores=lambda: cores[n]))


def session(master: str, executors: Executors | None = None, parallelism: int = 2, **settings: str) -> Any:
    """A session with the attributes that the tests need."""
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    context = SimpleNamespace(
        master=master,
        defaultParallelism=parallelism,
        getConf=lambda: conf,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: executors)),
    )
    return SimpleNamespace(sparkContext=context)


def test_an_executor_has_the_configured_cores() -> None:
    assert executor_cores(session("spark://somewhere:7077", spark_executor_cores="3")) == 3
    assert executor_cores(session("yarn", spark_executor_cores="5")) == 5


def test_in_one_process_there_is_one_executor() -> None:
    assert executor_cores(session("local[6]", parallelism=6)) == 6


@pytest.mark.parametrize("master", ["yarn", "k8s://https://somewhere:443"])
def test_yarn_and_kubernetes_executors_have_one_core_by_default(master: str) -> None:
    assert executor_cores(session(master, parallelism=12)) == 1


def test_a_standalone_executor_has_the_cores_of_its_worker_by_default() -> None:
    assert executor_cores(session("spark://somewhere:7077", Executors([8]), parallelism=8)) == 8
    assert executor_cores(session("spark://somewhere:7077", Executors([4, 16]), parallelism=20)) == 16


def test_the_first_executor_is_waited_for() -> None:
    assert executor_cores(session("spark://somewhere:7077", Executors([], [], [4]))) == 4


def test_the_wait_for_the_first_executor_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXECUTOR_SECONDS", 0.05)
    assert executor_cores(session("spark://somewhere:7077", Executors([]), parallelism=2)) == 2


@pytest.mark.parametrize("value", ["true", "false"])
def test_an_active_session_with_speculation_is_refused(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, str] = {}
    conf = SimpleNamespace(getAll=lambda: [("spark.speculation", value)])
    context = SimpleNamespace(getConf=lambda: conf, defaultParallelism=2)
    made: Any = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=settings.__setitem__))
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    active = SimpleNamespace(newSession=lambda: made, sparkContext=SimpleNamespace(_jsc=java))
    monkeypatch.setattr(SparkSession, "active", lambda: active)
    if value == "false":
        assert open_session(Config(), tmp_path) == (made, False)
        return
    with pytest.raises(ConfigError, match=r"the active Spark session enables spark\.speculation"):
        open_session(Config(), tmp_path)
    assert not settings


def test_directories_of_ended_processes_are_removed_and_those_of_live_ones_kept(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process, owner in {gone.pid: owner_record(os.getpid()), os.getppid(): owner_record(os.getppid())}.items():
        (tmp_path / str(process)).mkdir()
        (tmp_path / str(process) / "owner").write_text(owner)
    own = module._scratch(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([own, tmp_path / str(os.getppid())])
