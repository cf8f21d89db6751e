"""The pages of the examples: their commands run, and print the shown output."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples.loading import EXAMPLES, ROOT, app_of, file_of

from millstream.runtime.in_process.batches import InProcessRun

examples = pytest.mark.parametrize("example", EXAMPLES)


def blocks(example: str, language: str) -> list[str]:
    page = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    matches = re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    return [block.strip() for block in matches]


def run(command: str) -> str:
    """Runs a command of a page, with this Python; an application runs without Spark, until it has caught up."""
    program, *arguments = shlex.split(command)
    assert Path(program).parent == Path(".venv/bin")
    if arguments[0].endswith("/app.py") or arguments[:1] == ["run"]:
        assert len(arguments) == (2 if arguments[0] == "run" else 1)
        with InProcessRun(app_of(Path(arguments[-1]).parent.name)) as local:
            local.run()
        return ""
    here = Path(sys.executable).with_name(Path(program).name)
    done = subprocess.run([here, *arguments], capture_output=True, text=True, timeout=50, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.slow
@examples
def test_the_commands_of_a_page_print_the_shown_output(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path))
    commands = [command for block in blocks(example, "sh") for command in block.splitlines()]
    generate, process, *consume = commands
    assert Path(shlex.split(generate)[1]).name == "generate.py"
    assert ROOT / shlex.split(process)[-1] == file_of(example)
    assert {shlex.split(command)[1] for command in consume} == {"consume"}
    run(generate)
    run(process)
    shown = [line for command in consume for line in run(command).splitlines()]
    (wanted,) = blocks(example, "text")
    assert len(shown) == len(wanted.splitlines())
    for line, pattern in zip(shown, wanted.splitlines(), strict=True):
        assert re.fullmatch(re.escape(pattern).replace("…", ".*"), line), line


@examples
def test_a_page_shows_the_topology(example: str) -> None:
    """If it fails, run `make docs`."""
    assert blocks(example, "mermaid") == [app_of(example).describe("mermaid").strip()]
