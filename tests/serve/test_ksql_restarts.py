"""Persistent queries of a server that is killed or stopped: they go on, and no result is missing or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import processes
from tests.serve.servers import Server, start_server, wait_until
from tests.serve.sql_server import EARLIEST, ORDERS, Sql

from millstream.log import ProducerRecord, open_log
from millstream.sql.live.server import SqlServer

pytestmark = pytest.mark.timeout(120)  # the first test of a worker starts a server and its SQL process
_KEYS = 5


@contextmanager
def serving(data: Path) -> Iterator[tuple[Server, Sql]]:
    with start_server(data, is_open=True) as server:
        sql = Sql(server)
        try:
            sql.wait()
            yield server, sql
        finally:
            sql.close()


def sql_process(server: Server) -> int:
    """The process id of the server's SQL."""
    (pid,) = [each.pid for each in processes.below(server.process.pid) if "ksql.process" in each.command]
    return pid


def insert(sql: Sql, start: int, end: int) -> None:
    rows = [{"buyer": f"b{n % _KEYS}", "amount": n} for n in range(start, end)]
    answer = sql.post("/inserts-stream", "\n".join(map(json.dumps, [{"target": "orders"}, *rows])))
    assert answer.text.count('"ok"') == end - start


def counts(data: Path) -> list[tuple[bytes, int]]:
    """All records that the query of the table has written."""
    with open_log(data) as log:
        table = log.read("COUNTS", 0, 0, log.ends(["COUNTS"])["COUNTS"][0])
    values = [json.loads(value)["N"] for value in table["value"].to_pylist()]
    return list(zip(table["key"].to_pylist(), values, strict=True))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_queries_continue_after_each_kill_and_double_nothing(data: Path) -> None:
    with serving(data) as (server, sql):
        sql.run(ORDERS)
        sql.run("CREATE TABLE counts AS SELECT buyer, COUNT(*) AS n FROM orders GROUP BY buyer;", EARLIEST)
        sql.run("CREATE STREAM copied AS SELECT * FROM orders; PAUSE CSAS_COPIED_2;", EARLIEST)
        insert(sql, 0, 100)
        wait_until(lambda: len(counts(data)) >= 10, "the first results")
        process = sql_process(server)
        os.kill(process, signal.SIGKILL)
        sql.wait()
        assert sql_process(server) != process
        check(sql, data, 100)
        insert(sql, 100, 200)
        kill(server)  # its SQL process ends by itself
    with serving(data) as (server, sql):
        check(sql, data, 200)
        insert(sql, 200, 300)
        os.kill(sql_process(server), signal.SIGKILL)
        kill(server)
    with serving(data) as (server, sql):
        check(sql, data, 300)


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait()


def check(sql: Sql, data: Path, count: int) -> None:
    """Each row was counted once, in the order of its key, and the states are as before."""
    each = count // _KEYS
    wait_until(lambda: len(counts(data)) >= count, "the results")
    wait_until(lambda: len(sql.rows(f"SELECT * FROM counts WHERE n = {each};")) == _KEYS, "the table")
    assert Counter(counts(data)) == {(b"b%d" % key, n): 1 for key in range(_KEYS) for n in range(1, each + 1)}
    (queries,) = sql.run("SHOW QUERIES;")
    assert {query["id"]: query["state"] for query in queries["queries"]} == {
        "CTAS_COUNTS_1": "RUNNING",
        "CSAS_COPIED_2": "PAUSED",
    }


def test_a_server_that_is_stopped_and_started_continues_its_queries_before_any_request(data: Path) -> None:
    with serving(data) as (_server, sql):
        sql.run(ORDERS)
        sql.run("CREATE TABLE counts AS SELECT buyer, COUNT(*) AS n FROM orders GROUP BY buyer;", EARLIEST)
        insert(sql, 0, 10)
        wait_until(lambda: len(counts(data)) == 10, "the results")
    with open_log(data) as log:
        log.produce("orders", [ProducerRecord(b"b0", b'{"AMOUNT": 1}')])
    with start_server(data, is_open=True):
        wait_until(lambda: len(counts(data)) > 10, "the results")
    assert counts(data)[10:] == [(b"b0", 3)]


def test_while_a_shell_has_the_catalog_the_server_answers_503_with_the_reason_and_goes_on(data: Path) -> None:
    with SqlServer({"state.dir": str(data)}) as shell:
        shell.handler.statements(ORDERS)
        with start_server(data, is_open=True) as server:
            sql = Sql(server)
            wait_until(lambda: "another process" in sql.ksql("SHOW TABLES;").text, "the reason")
            answer = sql.ksql("SHOW TABLES;")
            error = answer.json()
            assert (answer.status_code, error["error_code"]) == (503, 50300)
            assert "a shell (millstream sql)" in error["message"]
            assert str(os.getpid()) in error["message"]
            assert answer.headers["retry-after"] == "1"
            health = sql.http.get("/healthcheck")
            assert (health.status_code, health.json()["isHealthy"]) == (503, False)
            assert sql.http.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "DEGRADED"
            assert sql.http.get("/api/v1/topics").status_code == 200
            assert sql.http.get("/healthz").status_code == 200
            shell.close()
            sql.wait()
            assert sql.run("SHOW STREAMS;")[0]["streams"][0]["name"] == "ORDERS"
            sql.close()


def test_a_shell_that_starts_beside_a_server_is_told_why_it_cannot(data: Path) -> None:
    with serving(data) as (server, sql):
        sql.run(ORDERS)
        command = [sys.executable, "-m", "millstream", "sql", "--data", str(data), "-e", "SHOW STREAMS;"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"process {sql_process(server)}" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_server_whose_sql_nobody_uses_starts_no_process_for_it(data: Path) -> None:
    with start_server(data, is_open=True) as server:
        sql = Sql(server)
        assert sql.http.get("/healthz").status_code == 200
        assert [each for each in processes.below(server.process.pid) if "ksql.process" in each.command] == []
        sql.close()
