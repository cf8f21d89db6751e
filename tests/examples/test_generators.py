"""The generators, run from the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.generator import START
from tests.examples.loading import EXAMPLES, ROOT, app_of, expected, fill, read

from millstream import TestDriver
from millstream.log import open_log
from millstream.plan.stateless import Sink

examples = pytest.mark.parametrize("example", EXAMPLES)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments],
        capture_output=True, text=True, timeout=50, check=False, cwd=ROOT,
    )  # fmt: skip


@examples
def test_a_seed_determines_the_records(example: str, tmp_path: Path) -> None:
    done = run(f"{example}/generate.py", "--data", str(tmp_path / "script"), "--records", "120", "--seed", "7")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("120 records written to ")
    with (
        open_log(tmp_path / "script") as log,
        open_log(tmp_path / "same") as same,
        open_log(tmp_path / "other") as other,
    ):
        topics = fill(same, example, 120, seed=7)
        fill(other, example, 120, seed=8)
        assert all(read(log, topic) == read(same, topic) for topic in topics)
        assert any(read(log, topic) != read(other, topic) for topic in topics)
        assert min(row[3] for topic in topics for row in read(log, topic)) >= START


def test_with_a_rate_records_have_the_current_time(tmp_path: Path) -> None:
    done = run("word_count/generate.py", "--data", str(tmp_path), "--records", "3", "--rate", "1000")
    assert (done.returncode, done.stdout) == (0, "3 records written to lines\n")
    with open_log(tmp_path) as log:
        times = [row[3] for row in read(log, "lines")]
        assert len(times) == 3
        assert min(times) > START


def test_a_mistake_is_reported_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("word_count/generate.py", "--data", str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@examples
def test_generated_records_have_results_in_all_topics_of_the_example(example: str, tmp_path: Path) -> None:
    app = app_of(example)
    with open_log(tmp_path) as log, TestDriver(app, partitions=2, batches=1_000) as driver:
        outputs = expected(log, fill(log, example, 600), driver)
    sinks = {sink.topic for sink in app.plan().of_type(Sink) if isinstance(sink.topic, str)}
    assert sinks
    assert sinks <= outputs.keys()
