"""Thirty queries in one process, which is killed, and starts again: catalog, states and results are as without."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.log import Log, ProducerRecord, open_log

_RECORDS = 300
_KEYS = 7
_CREATED = "CREATE STREAM S (k STRING KEY, n INT) WITH (kafka_topic='in', value_format='JSON', partitions=2);"


class Server:
    """A server in another process."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sql.live.server_process", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, text: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write((json.dumps(text) if text else "") + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def state(self) -> Any:
        return self.ask("")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._close()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._close()

    def _close(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as opened:
        yield opened


def queries() -> dict[str, str]:
    """Thirty statements of different kinds, by the topics that they write."""
    made = {f"P{n}": f"CREATE STREAM P{n} AS SELECT k, n + {n} AS v FROM S;" for n in range(10)}
    made |= {f"C{n}": f"CREATE TABLE C{n} AS SELECT k, COUNT(*) AS v FROM S GROUP BY k;" for n in range(10)}
    made |= {
        f"W{n}": f"CREATE TABLE W{n} AS SELECT k, COUNT(*) AS v FROM S WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;"
        for n in range(4)
    }
    made |= {f"R{n}": f"CREATE STREAM R{n} AS SELECT * FROM S PARTITION BY n % 3;" for n in range(3)}
    made["J"] = "CREATE STREAM J AS SELECT s.k AS k, s.v AS v, c.v AS c FROM P0 s LEFT JOIN C0 c ON s.k = c.k;"
    made["F"] = "CREATE STREAM F AS SELECT k, v FROM P1 WHERE v % 2 = 0;"
    made["I"] = "INSERT INTO F SELECT k, v FROM P1 WHERE v % 2 = 1;"
    return made


def produce(log: Log, start: int, end: int) -> None:
    for number in range(start, end, 10):
        log.produce(
            "in",
            [
                ProducerRecord(b"k%d" % (n % _KEYS), json.dumps({"N": n}).encode(), 1000 + n)
                for n in range(number, min(number + 10, end))
            ],
        )


def values(log: Log, topic: str) -> list[Any]:
    """The key and value of all records of a topic."""
    found: list[Any] = []
    for partition, end in enumerate(log.ends([topic])[topic]):
        table = log.read(topic, partition, 0, end)
        found += zip(table["key"].to_pylist(), map(json.loads, table["value"].to_pylist()), strict=True)
    return found


def await_records(log: Log, topic: str, count: int) -> None:
    deadline = time.monotonic() + 120
    while sum(log.ends([topic])[topic]) < count:
        assert time.monotonic() < deadline, f"{topic} has only {log.ends([topic])} of {count} records"
        time.sleep(0.05)


@pytest.mark.timeout(300)
def test_thirty_queries_are_there_again_after_a_kill_and_their_results_are_exact(log: Log, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.ask(_CREATED)
    created = {topic: server.ask(statement)[-1]["commandStatus"]["queryId"] for topic, statement in queries().items()}
    assert len(created) == 30
    for topic in ("P9", "C9", "W3"):
        server.ask(f"PAUSE {created[topic]};")
    for topic in ("P8", "C8"):
        server.ask(f"TERMINATE {created[topic]};")
    server.ask("DROP TABLE C8;")
    produce(log, 0, _RECORDS // 2)
    await_records(log, "C0", _RECORDS // 6)  # in the middle of the input
    before = server.state()
    server.kill()
    produce(log, _RECORDS // 2, _RECORDS)

    server = Server(tmp_path)
    assert server.state() == before
    assert [state for _statement, state, _problem in before["queries"].values()].count("PAUSED") == 3
    assert "C8" not in before["sources"]
    for topic in ("P9", "C9", "W3"):
        server.ask(f"RESUME {created[topic]};")
    expected = Counter({b"k%d" % key: len(range(key, _RECORDS, _KEYS)) for key in range(_KEYS)})
    for topic in created.keys() - {"P8", "C8", "I"}:
        await_records(log, topic, _RECORDS)
    server.end()
    for topic in created.keys() - {"P8", "C8", "I"}:
        records = values(log, topic)
        assert len(records) == _RECORDS, topic
        if topic[0] in "CW":  # each key was counted from 1 on, without a gap and without a repetition
            counts = Counter((key, value["V"]) for key, value in records)
            assert sorted(counts.values()) == [1] * _RECORDS, topic
            assert {key[:2]: value["V"] for key, value in records} == dict(expected), topic
        elif topic[0] == "R":
            assert sorted(value["N"] for _key, value in records) == list(range(_RECORDS)), topic
        else:
            add = int(topic[1:]) if topic[0] == "P" else 1 if topic in "FI" else 0
            assert sorted(value["V"] for _key, value in records) == [n + add for n in range(_RECORDS)], topic


def test_a_query_that_ended_leaves_no_state_and_begins_anew(log: Log, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.ask(_CREATED)
    statement = "CREATE TABLE C AS SELECT k, COUNT(*) AS v FROM S GROUP BY k;"
    server.ask(statement)
    produce(log, 0, 7)
    await_records(log, "C", 7)
    server.ask("DROP TABLE C DELETE TOPIC;")
    assert not [topic.name for topic in log.topics() if "-C-" in topic.name]
    server.kill()
    server = Server(tmp_path)
    server.ask(statement)
    await_records(log, "C", 7)
    server.end()
    assert {value["V"] for _key, value in values(log, "C")} == {1}


def test_a_query_that_fails_is_shown_with_its_cause_and_the_others_go_on(log: Log, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.ask(_CREATED)
    server.ask("CREATE STREAM D (k STRING KEY, d DECIMAL(2, 0)) WITH (kafka_topic='in', value_format='JSON');")
    statement = "CREATE TABLE BAD AS SELECT k, SUM(d) AS total FROM D GROUP BY k;"
    failing = server.ask(statement)[-1]["commandStatus"]["queryId"]
    good = server.ask("CREATE STREAM GOOD AS SELECT * FROM S;")[-1]["commandStatus"]["queryId"]
    log.produce("in", [ProducerRecord(b"k", b'{"D": 99}', 5)] * 2)
    await_records(log, "GOOD", 2)
    deadline = time.monotonic() + 60
    while server.state()["queries"][failing][1] != "ERROR" and time.monotonic() < deadline:
        time.sleep(0.05)
    states = server.state()["queries"]
    assert states[failing][1] == "ERROR"
    assert "overflow" in states[failing][2].lower()
    assert states[good][1] == "RUNNING"
    server.end()
