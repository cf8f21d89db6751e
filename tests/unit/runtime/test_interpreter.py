"""A Python that Spark's workers cannot run is refused before anything is started."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millstream.errors import SetupError
from millstream.runtime.spark.interpreter import check_interpreter, check_interpreter_of

OUTSIDE = """
import sys
sys.path[:0] = [path for path in sys.argv[2].split(":")]
from millstream import App

app = App("count", config={"state.dir": sys.argv[1], "status": "none"})
app.stream("in", value=str).group_by_key().count(store="counts")
try:
    app.start()
except Exception as error:
    print(error.code)
    print(error)
"""


def test_a_python_with_packages_of_another_virtual_environment_is_refused(tmp_path: Path) -> None:
    """This is the case for an IPython outside of the active virtual environment."""
    venv.create(tmp_path / "outside", with_pip=False, symlinks=True)
    python = tmp_path / "outside" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", OUTSIDE, str(tmp_path / "data"), ":".join(path for path in sys.path if path)],
        capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYSPARK_PYTHON"}},
    )  # fmt: skip
    code, message, hint = done.stdout.splitlines()
    assert code == "setup"
    assert message == (
        f"Spark's workers would run {python} (the running Python), "
        "which cannot import millstream and pyspark and pyarrow and pandas"
    )
    assert "PYSPARK_PYTHON" in hint
    assert not (tmp_path / "data").exists()


def test_the_running_python_and_workers_elsewhere_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    check_interpreter({})
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    check_interpreter({"spark.master": "yarn"})


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "which does not run: "),
        ("echo no Python at all", "which does not run: "),
        ("echo lost >&2; exit 1", "which does not run: lost"),
        ('echo \'{"python": [3, 4], "missing": [], "versions": {}}\'', "which is Python 3.4, and this is Python "),
        (
            f'echo \'{{"python": {list(sys.version_info[:2])}, "missing": [], "versions": {{"pyspark": "1.0"}}}}\'',
            "which has pyspark 1.0, and this has ",
        ),
    ],
)
def test_another_python_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, said: str
) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o700)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    with pytest.raises(SetupError) as caught:
        check_interpreter({})
    assert said in caught.value.message
    assert f"{python} (PYSPARK_PYTHON)" in caught.value.message
    assert caught.value.hint is not None
    assert "PYSPARK_PYTHON" in caught.value.hint


def test_the_python_of_an_active_session_is_checked(tmp_path: Path) -> None:
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    other: Any = SimpleNamespace(master="local[2]", pythonExec=str(tmp_path / "other" / "bin" / "python"))
    with pytest.raises(
        SetupError, match=r"\(the active Spark session\), which cannot import millstream and "
    ) as caught:
        check_interpreter_of(other)
    assert caught.value.hint == f"set PYSPARK_PYTHON={sys.executable} before the session is made"
    check_interpreter_of(SimpleNamespace(master="local[2]", pythonExec=sys.executable))  # type: ignore[arg-type]
    check_interpreter_of(SimpleNamespace(master="spark://somewhere", pythonExec="gone"))  # type: ignore[arg-type]
