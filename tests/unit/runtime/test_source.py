"""Spark's source, called as by Spark: failures before records are read."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from millstream import App
from millstream.errors import RunError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.batches.control import Control
from millstream.runtime.messages import Failure, TaskResult, unpack
from millstream.runtime.program.program import pack_program
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.reader import RESULT
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.source import MillstreamReader, Part, Settings
from millstream.runtime.start.prepared_application import PreparedApplication

NAME = "a_module_of_the_driver"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MillstreamReader:
    """The reader of an application that uses a module, which exists only until the application is packed."""
    module = tmp_path / "lib" / f"{NAME}.py"
    module.parent.mkdir()
    module.write_text("def shout(text):\n    return text.upper()\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(module.parent)
        used = importlib.import_module(NAME)
    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v")])
    app = App("far", config={"state.dir": str(tmp_path)})
    app.stream("in", value=str).map_values(used.shout).to("out")
    application = PreparedApplication(app.topology(), app.config)
    shipped = ShippedProgram(pack_program(application.program), None, tmp_path)
    application.close()
    del sys.modules[NAME]
    return MillstreamReader(Settings(shipped, str(tmp_path / "control"), application.first, 2, [7], "run", 1))


def test_a_module_that_is_missing_in_a_worker_is_a_failure_of_the_batch(reader: MillstreamReader) -> None:
    (batch,) = reader.read(Part(1, [Range("in", 0, 0, 1, more=False)], suspect=False))
    (row,) = batch.to_pylist()
    assert (row["slot"], row["kind"]) == (7, RESULT)
    (written,) = unpack(row["payload"], list[TaskResult])
    check(written.failure)


def test_a_module_that_is_missing_in_the_planner_is_reported_to_the_driver(
    reader: MillstreamReader, tmp_path: Path
) -> None:
    with pytest.raises(RunError):
        reader.initialOffset()
    check(Control(tmp_path / "control").failure())


def test_a_module_that_fails_at_import_is_a_failure_of_the_batch(
    reader: MillstreamReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib" / f"{NAME}.py").write_text("import os\nos.environ['A_VARIABLE_OF_THE_DRIVER']\n")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    (batch,) = reader.read(Part(1, [Range("in", 0, 0, 1, more=False)]))
    (written,) = unpack(batch.to_pylist()[0]["payload"], list[TaskResult])
    failure = written.failure
    assert failure is not None
    assert failure.message == "the application cannot be unpacked where it runs: KeyError: 'A_VARIABLE_OF_THE_DRIVER'"


def check(failure: Failure | None) -> None:
    assert failure is not None
    assert failure.code == "run"
    assert failure.message == (
        f"a module that the application needs cannot be imported where it runs: No module named '{NAME}'"
    )
    assert failure.hint is not None
    assert failure.hint.startswith("install it on every machine of the cluster, or put it beside the script")
