"""Every ``console`` block of the pages is run, and prints the shown output.

The applications of the tutorial run on Spark, those of the how-to guides without it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:into `([\w.]+)`:\s*\n)?```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    path
    for path in sorted([ROOT / "README.md", ROOT / "docs" / "tutorial.md", *(ROOT / "docs" / "how-to").glob("*.md")])
    if "```console" in path.read_text(encoding="utf-8")
]

RUN = re.compile(r"millstream run (\w+\.py) --until-caught-up --status none")
WITHOUT_SPARK = """
import sys
from millstream.cli.loading import load
from millstream.runtime.in_process.batches import InProcessRun
with InProcessRun(load(sys.argv[1])) as run:
    run.run()
"""


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Returns the commands of a block, each with its expected output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *output = part.splitlines()
        yield command, output


def shell(command: str, *, on_spark: bool) -> list[str]:
    """Returns the arguments of the process that runs a command of a page."""
    application = RUN.fullmatch(command)
    if application is None or on_spark:
        return ["bash", "-c", command]
    return [sys.executable, "-c", WITHOUT_SPARK, application[1]]


def marked(page: Path) -> Any:
    marks = (
        [pytest.mark.spark, pytest.mark.timeout(600)]
        if page.stem == "tutorial"
        else [pytest.mark.slow, pytest.mark.timeout(300)]
    )
    return pytest.param(page, id=page.stem, marks=marks)


def told(lines: list[str]) -> list[str]:
    """Returns the output without parts that vary: numbers, times and the width of columns."""
    return [re.sub(r"\s+", " ", re.sub(r"\d+", "0", line)).strip() for line in lines if line.strip()]


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_the_commands_of_a_page_print_the_shown_output(page: Path, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MILLSTREAM", "PYTEST"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for name, kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            if name:
                (tmp_path / name).write_text(text, encoding="utf-8")
            continue
        for command, output in commands(text):
            arguments = shell(command, on_spark=page.stem == "tutorial")
            done = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            if output != ["..."]:
                wanted, printed = told(output), told((done.stdout + done.stderr).splitlines())
                if wanted[-1:] == ["..."]:
                    wanted, printed = wanted[:-1], printed[: len(wanted) - 1]
                assert printed == wanted, command


def test_some_pages_have_commands() -> None:
    assert {"tutorial", "use-the-command-line"} <= {page.stem for page in PAGES}
