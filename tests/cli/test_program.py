"""The program as a whole: help, versions, doctor, and failures."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import MILLSTREAM, Run, environment
from typer.main import get_command

from millstream.cli.main import cli

VERSION = f"millstream {importlib.metadata.version('millstream')}\n"


def test_the_program_and_the_module_are_the_same(process: Run) -> None:
    assert process("--version") == (0, VERSION, "")
    assert process("version", program=[sys.executable, "-m", "millstream"]) == (0, VERSION, "")


def test_help_loads_nothing_heavy(data: Path) -> None:
    command = [sys.executable, "-X", "importtime", str(MILLSTREAM), "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(data), check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines()}
    assert "typer" in loaded
    assert loaded.isdisjoint({"numpy", "pandas", "py4j", "pyarrow", "pyspark", "sqlite3"})


def commands(group: Any = None) -> list[list[str]]:
    names = []
    top: Any = group or get_command(cli)
    for name, command in top.commands.items():
        below = commands(command) if hasattr(command, "commands") else [[]]
        names += [[name, *path] for path in below]
    return names


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(millstream: Run, command: list[str]) -> None:
    shown = millstream(*command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert f"millstream {' '.join(command)}" in shown.out
    assert "Examples:" in shown.out or command == ["version"]


def test_a_missing_or_misspelt_command_is_a_usage_error(millstream: Run) -> None:
    assert millstream()[0] == 2
    assert "plan-diff" in millstream().out
    misspelt = millstream("consum")
    assert (misspelt.code, misspelt.out) == (2, "")
    assert misspelt.err.startswith("error: No such command 'consum'. Did you mean 'consume'?\n")


def test_a_closed_stdout_is_no_error(data: Path) -> None:
    command = f"exec {MILLSTREAM} version >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, env=environment(data), check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_millstream_debug_prints_the_traceback(data: Path) -> None:
    debugging = {**environment(data), "MILLSTREAM_DEBUG": "1"}
    ended = subprocess.run(
        [str(MILLSTREAM), "topics", "list"], capture_output=True, text=True, env=debugging, check=False
    )
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "there is no data directory" in ended.stderr


def test_doctor_finds_no_problem_on_this_machine(millstream: Run) -> None:
    millstream("topics", "create", "orders")
    result = millstream("doctor", "-o", "json")
    checks = {check["name"]: check for check in result.lines}
    assert checks["Python"]["status"] == checks["pyspark"]["status"] == checks["loopback"]["status"] == "ok"
    assert checks["log"]["found"].startswith("1 topics")
    assert result.code == (1 if any(check["status"] == "fail" for check in result.lines) else 0)


def test_doctor_reports_problems_with_a_fix(
    millstream: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    data.mkdir(mode=0o755)
    (data / "log.db").write_text("something else")
    result = millstream("doctor")
    assert result.code == 1
    lines = result.out.splitlines()
    (java,) = [number for number, line in enumerate(lines) if line.startswith("fail  Java: ")]
    assert lines[java + 1].startswith("      fix: JAVA_HOME is wrong: correct it, or unset it")
    assert any(line.startswith(f"warn  data directory: other users can read {data}") for line in lines)
    assert any(line.startswith("fail  log: ") for line in lines)


def test_bench_prints_rates(millstream: Run, data: Path) -> None:
    steps = millstream("bench", "--records", "2000", "-o", "json").lines
    assert [step["step"] for step in steps] == [
        "produce to the log",
        "read from the log",
        "count by key, engine only",
    ]
    assert all(step["records"] == 2000 and step["records_per_second"] > 0 for step in steps)
    assert not data.exists()
