"""A missing or too old Java is reported before an application changes anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from millstream.errors import SetupError
from millstream.runtime.spark.session import check_startable

SCRIPT = """
import sys
from millstream import App

app = App("count", config={"state.dir": sys.argv[1], "status": "none"})
app.stream("in", value=str).group_by_key().count(store="counts")
try:
    app.start()
except Exception as error:
    print(error.code)
    print(error)
"""


def start(tmp_path: Path, **environment: str) -> list[str]:
    """Starts an application with only the programs of a directory on the PATH, and returns its error."""
    programs = tmp_path / "programs"
    programs.mkdir(exist_ok=True)
    make(programs / "apt-get", "exit 1")
    variables = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PATH"}}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")],
        capture_output=True, text=True, timeout=60, check=True, env={**variables, "PATH": str(programs), **environment},
    )  # fmt: skip
    assert done.stderr == ""
    assert not (tmp_path / "data").exists()
    return done.stdout.splitlines()


def make(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)


INSTALL = "  hint: install Java 17 or later: sudo apt-get install openjdk-17-jre-headless"


def test_a_missing_java_is_an_error_with_an_install_command(tmp_path: Path) -> None:
    error = start(tmp_path)
    assert error == ["setup", "Spark needs Java 17 or later, and there is none on the PATH", INSTALL]


def test_a_java_home_without_java_is_an_error(tmp_path: Path) -> None:
    home = tmp_path / "gone"
    error = start(tmp_path, JAVA_HOME=str(home))
    assert error == ["setup", f"Spark needs Java 17 or later, and there is none in JAVA_HOME ({home})", INSTALL]
    make(tmp_path / "programs" / "java", "exit 1")
    assert start(tmp_path, JAVA_HOME=str(home))[2].startswith("  hint: JAVA_HOME is wrong: correct it, or unset it")


@pytest.mark.parametrize(("version", "number"), [("11.0.2", "11"), ("1.8.0_292", "8"), ("16", "16")])
def test_a_java_that_is_too_old_is_refused(tmp_path: Path, version: str, number: str) -> None:
    java = tmp_path / "programs" / "java"
    make(java, f"echo 'openjdk version \"{version}\" 2019-01-15' >&2")
    error = start(tmp_path)
    assert error == ["setup", f"Spark needs Java 17 or later, and {java} is version {number}", INSTALL]


def test_java_is_not_checked_if_spark_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    active = SimpleNamespace(master="local", pythonExec=sys.executable)
    monkeypatch.setattr(SparkContext, "_active_spark_context", active)
    check_startable({})
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(SetupError):
        check_startable({})
