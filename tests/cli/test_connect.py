"""Connectors on the command line: a file with connectors runs, is shown, and is given commands."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import MILLSTREAM, Run, environment
from tests.connect.waiting import wait_for

PLUGIN = '''
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from millstream.connect import Source, SourceBatch, SourceContext, SourceRecord


class Clock(Source):
    """Appends a number for each tick."""

    commands = ("snapshot",)

    def __init__(self, target: str, interval_ms: str = "10", most: int = 1_000_000) -> None:
        self.topic, self.pause, self.most = target, int(interval_ms) / 1000, most

    def read(self, split: str, position: int | None, context: SourceContext) -> Iterator[SourceBatch | None]:
        number = position or 0
        while number < self.most:
            number += 1
            yield SourceBatch([SourceRecord(self.topic, split, {"number": number})], number)
            context.gauge("snapshots", len(context.commands))
            context.wait(self.pause)


def even(record: SourceRecord) -> SourceRecord | None:
    return None if record.value["number"] % 2 else record
'''

FILE = """
"application.id" = "ticking"
"commit.interval.ms" = 20

[connectors.clock]
"connector.class" = "ticks:Clock"
target = "ticks"
interval.ms = "5"
"key.converter" = "org.apache.kafka.connect.storage.StringConverter"
topic.creation.default.partitions = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "ticks.py").write_text(PLUGIN)
    path = tmp_path / "ticking.toml"
    path.write_text(FILE)
    return path


def test_a_file_runs_until_its_sources_have_ended_and_continues_later(process: Run, file: Path) -> None:
    file.write_text(FILE + 'most = 4\ntransforms = "ticks:even"\n')
    for _ in range(2):
        result = process("connect", "run", file.name, "--until-caught-up", "--status", "none")
        assert (result.code, result.err) == (0, "")
    lines = process("consume", "ticks", "--from-beginning", "--no-follow", "--value", "json", "--output", "json").lines
    assert [line["value"] for line in lines] == [{"number": 2}, {"number": 4}]
    assert json.loads(process("topics", "describe", "ticks", "--output", "json").out)["partitions"]


def test_a_running_connector_is_shown_and_given_commands(process: Run, file: Path, data: Path) -> None:
    started = subprocess.Popen(
        [str(MILLSTREAM), "connect", "run", file.name, "--status", "none", "--config", "report.interval.ms=50"],
        cwd=file.parent,
        env=environment(data),
    )

    def task() -> dict[str, object]:
        shown = json.loads(process("connect", "status", "--output", "json").out)
        tasks = shown.get("ticking", {}).get("clock", {}).get("tasks")
        return dict(tasks[0]) if tasks else {"records": 0, "state": "", "gauges": {}}

    try:
        wait_for(lambda: task()["records"], "records")
        assert "Clock" in process("connect", "status", "ticking").out
        for command, state in [("pause", "PAUSED"), ("resume", "RUNNING"), ("restart", "RUNNING")]:
            assert process("connect", command, "ticking", "clock").code == 0
            wait_for(lambda: task()["state"] == state, state)  # noqa: B023  (called at once)
        assert process("connect", "snapshot", "ticking", "clock", "public.orders").code == 0
        wait_for(lambda: task()["gauges"] == {"snapshots": 1.0}, "the command")
        result = process("connect", "pause", "ticking", "clok")
        assert result.code != 0
        assert "no connector 'clok'" in result.err
    finally:
        started.send_signal(signal.SIGTERM)
        assert started.wait(50) == 0
    assert "NOT_RUNNING" in process("connect", "status").out
    assert process("connect", "pause", "ticking", "clock").code != 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no connectors"),
        ("[connectors]\nclock = 3", "connectors.clock is not a table"),
        ("[connectors.clock]\ntopic = 'x'", "connector clock: connector.class is missing"),
        ("[connectors.clock]\n'connector.class' = 'postgres-cdd'", "did you mean 'postgres-cdc'"),
        ("[connectors.clock]\n'connector.class' = 'ticks:Clok'", "connector type 'ticks:Clok'"),
        ("[connectors.clock]\n'connector.class' = 'ticks:even'", "is neither a source nor a sink"),
        ("[connectors.clock]\n'connector.class' = 'ticks:Clock'\nspeed = 3", "unexpected keyword argument 'speed'"),
        (FILE + "'errors.tolerance' = 'some'", "errors.tolerance is 'some'"),
        (
            FILE + "'tasks.max' = 1\n'value.converter.schemas.enable' = 'no'\n'value.converter' = 'json'",
            "true or false",
        ),
        ("[connectors.clock", "is not valid TOML"),
        ("'num.workrs' = 3\n" + FILE, "did you mean 'num.workers'"),
    ],
)
def test_a_wrong_file_is_refused(millstream: Run, file: Path, text: str, message: str) -> None:
    file.write_text(text)
    result = millstream("connect", "run", str(file))
    assert result.code != 0
    assert message in result.err
    assert "Traceback" not in result.err


def test_types_are_listed(millstream: Run) -> None:
    assert {line["type"] for line in millstream("connect", "types", "--output", "json").lines} == {
        "postgres-cdc",
        "postgres-sink",
        "polling",
        "triggers",
    }


@pytest.mark.parametrize("name", ["postgres-cdc", "postgres-sink", "polling", "triggers"])
def test_the_settings_of_each_type_are_listed(millstream: Run, name: str) -> None:
    settings = {line["setting"]: line for line in millstream("connect", "types", name, "--output", "json").lines}
    assert all(line["description"] for line in settings.values())
    assert "required" in {line["default"] for line in settings.values()}


def test_triggers_are_installed_and_removed(process: Run, tmp_path: Path) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    shop.execute("create table orders (id integer primary key, item text)")
    (tmp_path / "shop.toml").write_text(
        "[connectors.orders]\n'connector.class' = 'triggers'\n'connection.url' = 'sqlite:shop.db'\n"
        "'table.include.list' = 'orders'\n'topic.prefix' = 'shop'\n"
    )
    assert process("connect", "install", "shop.toml", "orders").code == 0
    shop.execute("insert into orders values (1, 'pen')")
    assert process("connect", "run", "shop.toml", "--until-caught-up", "--status", "none").code == 0
    (line,) = process(
        "consume", "shop.orders", "--from-beginning", "--no-follow", "--value", "json", "--output", "json"
    ).lines
    assert line["value"]["after"] == {"id": 1, "item": "pen"}
    assert process("connect", "remove", "shop.toml", "orders").code == 0
    assert [name for (name,) in shop.execute("select name from sqlite_master where type = 'trigger'")] == []
    shop.close()
    result = process("connect", "install", "shop.toml", "order")
    assert (result.code != 0, "did you mean 'orders'" in result.err) == (True, True)
