"""Connectors of users: positions, errors, dead letters, commands, metrics, and the order in which they catch up."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.connect.plugins import Lines, Rows, rows_of
from tests.connect.waiting import wait_for

from millstream import App, Handle
from millstream.connect import SourceRecord
from millstream.errors import ConfigError, ConnectorError, FencedError
from millstream.log import ProducerRecord, open_log
from millstream.log.api import Scope
from millstream.runtime.lifecycle import State


def make(tmp_path: Path, **config: Any) -> App:
    return App("pipes", config={"state.dir": str(tmp_path / "data"), "status": "none", **config})


def write(tmp_path: Path, lines: list[str], name: str = "a") -> None:
    (tmp_path / "in").mkdir(exist_ok=True)
    with (tmp_path / "in" / f"{name}.txt").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def produced(tmp_path: Path, topic: str = "lines") -> list[tuple[bytes, bytes]]:
    with open_log(tmp_path / "data") as log:
        rows = []
        for number in range(log.topic(topic).partitions):
            table = log.read(topic, number, 0, 10**6)
            rows += list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        return rows


def state_of(handle: Handle, name: str) -> str:
    return str(handle.metrics()["connectors"][name]["state"])


def progress_of(handle: Handle, name: str) -> list[str]:
    return [task["progress"] for task in handle.metrics()["connectors"][name]["tasks"]]


def test_a_source_continues_at_its_position_after_a_restart(tmp_path: Path) -> None:
    write(tmp_path, [f"k{number % 3}:{number}" for number in range(20)])
    for start in (0, 20, 20):
        app = make(tmp_path)
        app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
        app.run(until_caught_up=True)
        if start == 0:
            write(tmp_path, [f"k{number % 3}:{number}" for number in range(20, 30)])
    assert [value for _key, value in produced(tmp_path)] == [str(number).encode() for number in range(30)]


def test_each_split_has_its_own_position(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path, [f"{name}:{number}" for number in range(15)], name)
    for _ in range(2):
        app = make(tmp_path)
        app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str, partitions=2)
        app.run(until_caught_up=True)
        write(tmp_path, ["b:15"], "b")
    rows = produced(tmp_path)
    for name in "abc":
        values = [value for key, value in rows if key == name.encode()]
        assert values == [str(number).encode() for number in range(15 + (name == "b"))]


def test_source_topology_and_sink_catch_up_one_after_the_other(tmp_path: Path) -> None:
    write(tmp_path, [f"k{number % 3}:{number}" for number in range(50)])
    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    app.stream("lines", value=str).group_by_key().count(store="counts").to_stream().to("counts")
    app.connect("table", Rows(tmp_path / "rows.db"), topics=["counts"], value=int)
    app.run(mode="local", until_caught_up=True)
    assert dict(rows_of(tmp_path / "rows.db")) == {"k0": 17, "k1": 17, "k2": 16}
    assert len(rows_of(tmp_path / "rows.db")) == 50


def test_a_sink_continues_at_the_offsets_of_its_target(tmp_path: Path) -> None:
    write(tmp_path, [f"k:{number}" for number in range(40)])
    for run in range(3):
        app = make(tmp_path)
        app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str, partitions=3)
        app.connect("table", Rows(tmp_path / "rows.db"), topics="lines", value=str, tasks=1 + run)
        app.run(until_caught_up=True)
        write(tmp_path, [f"k:{40 + run}"])
    assert sorted(int(value) for _key, value in rows_of(tmp_path / "rows.db")) == list(range(42))


def test_a_sink_waits_for_its_topic(tmp_path: Path) -> None:
    app = make(tmp_path)
    app.connect("table", Rows(tmp_path / "rows.db"), topics=["lines"], value=str)
    with app.start() as handle:
        wait_for(lambda: "waiting for topic lines" in progress_of(handle, "table"), "the task")
        with open_log(tmp_path / "data") as log:
            log.create_topic("lines", partitions=2)
            log.produce("lines", [ProducerRecord(b"k", b"1")])
        wait_for(lambda: handle.metrics()["connectors"]["table"]["records"] == 1, "the record")
    assert rows_of(tmp_path / "rows.db") == [("k", "1")]


def test_transforms_change_drop_and_multiply_records(tmp_path: Path) -> None:
    write(tmp_path, ["a:1", "b:2", "c:3"])

    def change(record: SourceRecord) -> Any:
        if record.key == "a":
            return None
        if record.key == "b":
            return [record, record.replace(key="twice")]
        return record.replace(topic="others", headers=(("seen", b"yes"),))

    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str, transforms=[change])
    app.run(until_caught_up=True)
    assert produced(tmp_path) == [(b"b", b"2"), (b"twice", b"2")]
    assert produced(tmp_path, "others") == [(b"c", b"3")]


def test_an_error_of_a_transform_names_the_function_and_the_topic(tmp_path: Path) -> None:
    write(tmp_path, ["a:1"])

    def broken(record: SourceRecord) -> SourceRecord:
        raise KeyError("amount")

    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str, transforms=[broken])
    with pytest.raises(ConnectorError, match=r"topic lines .*broken \(.*test_connectors.py:\d+\).*amount"):
        app.run(until_caught_up=True)


def test_records_that_cannot_be_converted_are_counted_if_so_configured(tmp_path: Path) -> None:
    write(tmp_path, ["a:1", "b:x", "c:3"])
    app = make(tmp_path)
    app.connect(
        "files",
        Lines(tmp_path / "in", "lines"),
        key=str,
        value=int,
        on_error="continue",
        transforms=[lambda record: record.replace(value=int(record.value))],
    )
    with app.start(until_caught_up=True) as handle:
        handle.wait()
        assert handle.metrics()["connectors"]["files"]["tasks"][0]["dropped"] == {"transform error": 1}
    assert len(produced(tmp_path)) == 2


def test_a_sink_writes_each_dead_letter_once(tmp_path: Path) -> None:
    write(tmp_path, ["a:1", "b:poison", "c:3"])
    for _ in range(2):
        app = make(tmp_path)
        app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
        app.connect(
            "table",
            Rows(tmp_path / "rows.db"),
            topics=["lines"],
            value=str,
            on_error="continue",
            dead_letter_topic="dead",
        )
        app.run(until_caught_up=True)
        # As if the process had ended between the dead letter and the write of the target.
        connection = sqlite3.connect(tmp_path / "rows.db")
        with connection:
            connection.execute("delete from rows")
            connection.execute("delete from offsets")
        connection.close()
    assert produced(tmp_path, "dead") == [(b"b", b"poison")]


def test_a_sink_that_fails_names_the_record(tmp_path: Path) -> None:
    write(tmp_path, ["a:1", "b:poison"])
    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    app.run(until_caught_up=True)
    app = make(tmp_path)
    app.connect("table", Rows(tmp_path / "rows.db"), topics=["lines"], value=str)
    with pytest.raises(ConnectorError, match=r"topic lines, partition 0, offset 1: .*poison") as caught:
        app.run(until_caught_up=True)
    assert "on_error='continue'" in str(caught.value)


def test_a_connector_tries_again_after_a_failure_that_may_pass(tmp_path: Path) -> None:
    write(tmp_path, ["a:1"])
    app = make(tmp_path, **{"restart.backoff.ms": 20, "restart.max.attempts": 1000})
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    with app.start() as handle:
        wait_for(lambda: handle.metrics()["connectors"]["files"]["records"] == 1, "the first record")
        (tmp_path / "in" / "a.txt").rename(tmp_path / "in" / "gone")
        wait_for(lambda: state_of(handle, "files") == "RESTARTING", "the source is away")
        task = handle.metrics()["connectors"]["files"]["tasks"][0]
        assert task["error"] == "a.txt is away"
        (tmp_path / "in" / "gone").rename(tmp_path / "in" / "a.txt")
        write(tmp_path, ["a:2"])
        wait_for(lambda: handle.metrics()["connectors"]["files"]["records"] == 2, "the second record")
    assert len(produced(tmp_path)) == 2


def test_connectors_are_paused_resumed_restarted_and_commanded(tmp_path: Path) -> None:
    write(tmp_path, ["a:1"])
    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    with app.start() as handle:
        wait_for(lambda: handle.metrics()["connectors"]["files"]["records"] == 1, "the first record")
        handle.command("files", "pause")
        wait_for(lambda: state_of(handle, "files") == "PAUSED", "the pause")
        write(tmp_path, ["a:2"])
        handle.command("files", "restart")
        assert handle.metrics()["connectors"]["files"]["records"] == 1
        handle.command("files", "resume")
        wait_for(lambda: handle.metrics()["connectors"]["files"]["records"] == 2, "the second record")
        handle.command("files", "again")
        wait_for(lambda: handle.metrics()["connectors"]["files"]["records"] == 4, "the records again")
        assert handle.metrics()["connectors"]["files"]["tasks"][0]["gauges"] == {"bytes": 8}
        with pytest.raises(ConfigError, match="has no command 'agin'"):
            handle.command("files", "agin")
        with pytest.raises(ConfigError, match="did you mean 'files'"):
            handle.command("file", "pause")
    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    app.run(until_caught_up=True)  # the command is recorded as done
    assert [value for _key, value in produced(tmp_path)] == [b"1", b"2", b"1", b"2"]


def test_an_instance_that_is_fenced_ends(tmp_path: Path) -> None:
    write(tmp_path, ["a:1"])
    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    handle = app.start()
    wait_for(lambda: handle.metrics()["connectors"]["files"]["records"] == 1, "the first record")
    with open_log(tmp_path / "data") as log:
        log.applications.acquire(Scope("pipes"))
    write(tmp_path, ["a:2"])
    handle.wait_for([State.ERROR], 50)
    assert isinstance(handle.error, FencedError)
    assert len(produced(tmp_path)) == 1


def test_a_failed_connector_leaves_the_topology_running(tmp_path: Path) -> None:
    write(tmp_path, ["a:poison"])
    app = make(tmp_path)
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    app.stream("lines", value=str).to("copies")
    app.connect("table", Rows(tmp_path / "rows.db"), topics=["lines"], value=str)
    with app.start(mode="local") as handle:
        wait_for(lambda: state_of(handle, "table") == "FAILED", "the failure")
        write(tmp_path, ["a:2"])
        wait_for(lambda: handle.metrics()["sinks"].get("copies") == 2, "the topology")
        assert handle.state is State.RUNNING


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": []}, "is a sink without topics"),
        ({"topics": ["lines"], "tassks": 2}, "did you mean 'tasks'"),
        ({"topics": ["lines"], "on_error": "skip"}, "it is one of: fail, continue"),
        ({"topics": ["lines"], "dead_letter_topic": "dead"}, "has no effect with on_error='fail'"),
        ({"topics": ["lines"], "tasks": 0}, "must be from 1 to 64"),
        ({"topics": ["lines"], "transforms": [3]}, "a transform is a function"),
        ({"topics": ["li nes"]}, "topic name 'li nes' is not allowed"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ValueError)) as caught:
        make(tmp_path).connect("table", Rows(tmp_path / "rows.db"), **options)
    assert message in str(caught.value)


def test_two_connectors_of_one_name_are_refused(tmp_path: Path) -> None:
    app = make(tmp_path)
    app.connect("table", Rows(tmp_path / "rows.db"), topics=["lines"])
    with pytest.raises(ConfigError, match="two connectors 'table'"):
        app.connect("table", Rows(tmp_path / "rows.db"), topics=["lines"])
