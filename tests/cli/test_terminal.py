"""Text from records and exceptions is escaped before it is written to a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from millstream import App, TestDriver
from millstream.cli.main import main
from millstream.errors import ProcessingError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.messages import failure_of
from millstream.runtime.publish.committer import error_of
from millstream.text.escaping import MESSAGE, TRACE

EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u2028\u202e\u200b\r[bold]"
FORGED = f"{EVIL}\nerror: all is lost\nhint: rm -rf /\n  hint: rm -rf /\n"


def assert_harmless(text: str) -> None:
    assert all(line.replace("\t", "").isprintable() for line in text.split("\n"))


def assert_not_forged(text: str) -> None:
    assert_harmless(text)
    assert not [line for line in text.split("\n") if line.startswith(("error: all", "hint: rm", "  hint: rm"))]


def application(data: Path, text: str, **config: Any) -> App:
    def fail(_value: str) -> str:
        raise ValueError(text)

    app = App("shop", config={"state.dir": str(data), **config})
    app.stream("in", value=str).map_values(fail, value=str, name="failing").to("out")
    return app


@pytest.fixture
def evil_letter(data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(EVIL.encode(), EVIL.encode(), 5, ((EVIL, EVIL.encode()), ("b", b"\xff")))])
    config = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    with InProcessRun(application(data, FORGED, **config)) as run:
        run.run()


@pytest.mark.usefixtures("evil_letter")
@pytest.mark.parametrize(
    "command",
    [
        ("dlq", "list", "dead"),
        ("dlq", "list", "dead", "--summary"),
        ("dlq", "show", "dead", "0:0"),
        ("consume", "dead", "--from-beginning"),
        ("consume", "in", "--from-beginning"),
        ("consume", "in", "--from-beginning", "--value-serde", "json"),
    ],
)
def test_dead_letters_and_records_are_escaped(millstream: Run, command: tuple[str, ...]) -> None:
    result = millstream(*command)
    assert result.code == 0
    assert_not_forged(result.out + result.err)
    as_json = millstream(*command, "-o", "json")
    assert_harmless(as_json.out)
    assert as_json.lines


@pytest.mark.usefixtures("evil_letter")
def test_json_contains_every_character_of_a_dead_letter(millstream: Run) -> None:
    (letter,) = millstream("dlq", "show", "dead", "0:0", "-o", "json").lines
    assert letter["message"] == FORGED
    assert letter["key"] == letter["value"] == EVIL
    assert letter["headers"][:2] == [[EVIL, EVIL], ["b", {"base64": "/w=="}]]
    (record,) = millstream("consume", "in", "--from-beginning", "-o", "json").lines
    assert record["value"] == EVIL


def test_a_traceback_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.py").write_text(f"raise ValueError({FORGED!r})\n", encoding="utf-8")
    monkeypatch.setenv("MILLSTREAM_DEBUG", "1")
    assert main(["describe", str(tmp_path / "app.py")]) == 1
    shown = capsys.readouterr().err
    assert_not_forged(shown)
    assert "    Trace" + "back (most recent call last):" in shown.splitlines()
    assert [line for line in shown.splitlines() if line.startswith("error: ")]


def test_the_error_of_a_command_is_escaped(millstream: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(f"raise ValueError({FORGED!r})\n", encoding="utf-8")
    result = millstream("describe", str(tmp_path / "app.py"))
    assert_not_forged(result.err)
    lines = result.err.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[1] == "    error: all is lost"
    assert lines[-1].startswith("hint: MILLSTREAM_DEBUG=1")


def test_long_texts_of_exceptions_are_shortened(millstream: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text('raise ValueError("x" * 50_000_000)\n', encoding="utf-8")
    result = millstream("describe", str(tmp_path / "app.py"))
    assert len(result.err) < MESSAGE + 500
    assert "characters left out" in result.err


def test_the_error_of_a_record_is_escaped_and_names_topic_and_offset(data: Path) -> None:
    app = application(data, FORGED)
    with TestDriver(app) as driver, pytest.raises(ProcessingError) as caught:
        driver.input("in").pipe("k", "v")
    assert_not_forged(str(caught.value))
    assert "(topic in, partition 0, offset 0, function test_terminal.py:" in caught.value.message
    received = error_of(failure_of(caught.value))  # as it is received from another process
    (trace,) = received.__notes__
    assert_not_forged(str(received) + trace)
    assert "ValueError" in trace


def test_a_dead_letter_contains_the_beginning_of_a_long_text(data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v", 5)])
    config = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    with InProcessRun(application(data, "x" * 5_000_000 + "\ud800", **config)) as run:
        run.run()
    with open_log(data) as log:
        (row,) = log.read("dead", 0, 0, 1).to_pylist()
    assert len(row["headers"]) < MESSAGE + TRACE + 1000


def test_printed_records_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("printing")
    app.stream("in", value=str).print("label")
    with TestDriver(app) as driver:
        driver.input("in").pipe(EVIL, FORGED)
    assert_not_forged(capsys.readouterr().out)
