"""Limits of the calls of the SQL process: the time of a pull query, slow readers, and calls that end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from millstream import App, contract
from millstream.serve.access.roles import Principal, Role
from millstream.serve.ksql import process as sql_process, service as sql_service
from millstream.serve.ksql.frames import packed, receive
from millstream.serve.ksql.permissions import Sender
from millstream.serve.ksql.process import SqlProcess
from millstream.serve.ksql.service import SqlService
from millstream.serve.observe.reports import Reports
from millstream.serve.operations.masking import Masks
from millstream.sql.live.server import SqlServer
from millstream.sql.requests.errors import RequestError

ADMIN = Principal("anna", Role.ADMIN)
STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"


@pytest.fixture
def service(tmp_path: Any) -> Iterator[SqlService]:
    with SqlServer({"state.dir": str(tmp_path / "data")}) as server:
        opened = SqlService(server, Masks(Reports(tmp_path / "data")))
        opened.statements(Sender(ADMIN), STREAM, {}, {})
        yield opened


def rows_of(service: SqlService, text: str, sender: Principal = ADMIN) -> list[Any]:
    answer = service.query(Sender(sender), threading.Event(), text, {}, {}, "entities")
    items = next(answer)[1:]
    while True:
        try:
            items += next(answer)
        except StopIteration as end:
            return [json.loads(item) for item in (*items, end.value)]


def test_a_pull_query_that_takes_too_long_is_stopped_with_an_error(
    service: SqlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.insert(Sender(ADMIN), "s", {}, ['{"v": 1}'] * 3000, 0)
    text = "SELECT k FROM s WHERE REDUCE(GENERATE_SERIES(1, 500), 0, (s, x) => s + x) = v;"
    assert rows_of(service, text)[1:] == [{"finalMessage": "Query Completed"}]
    monkeypatch.setattr(sql_service, "_PULL_SECONDS", 0.0)
    monkeypatch.setattr(sql_service, "_POLL", 0.01)
    assert "takes longer than" in rows_of(service, text)[-1]["errorMessage"]["message"]


def test_viewers_do_not_query_topics_with_personal_fields(service: SqlService, tmp_path: Any) -> None:
    viewer, operator = Principal("v", Role.VIEWER), Principal("o", Role.OPERATOR)
    for name in ("mails", "copies", "others"):
        options = f"WITH (kafka_topic='{name}', value_format='JSON', partitions=1)"
        service.statements(Sender(ADMIN), f"CREATE STREAM {name} (k STRING KEY, mail STRING) {options};", {}, {})
    service.insert(Sender(ADMIN), "mails", {}, ['{"k": "a", "mail": "anna@example.com"}'], 0)
    app = App("people", state_dir=str(tmp_path / "data"), status="none")
    tagged = contract(on_violation="drop", tags={"mail": "pii"})
    app.stream("mails", key=str, value=dict, contract=tagged).to("others")
    app.run(mode="local", until_caught_up=True)
    queries = [
        "SELECT * FROM mails;",
        "SELECT * FROM copies EMIT CHANGES LIMIT 1;",
        "SELECT * FROM others;",
        "SELECT s.k AS k FROM s JOIN mails WITHIN 1 HOUR ON s.k = mails.k EMIT CHANGES LIMIT 1;",
        "PRINT 'mails' FROM BEGINNING LIMIT 1;",
    ]
    for text in queries:
        with pytest.raises(RequestError, match="of a topic with personal fields needs the role operator"):
            rows_of(service, text, viewer)
    assert rows_of(service, "SELECT * FROM s;", viewer)[-1] == {"finalMessage": "Query Completed"}
    assert rows_of(service, queries[0], operator)[1] == {"row": {"columns": ["a", "anna@example.com"]}}


def test_the_rows_of_a_large_answer_come_in_parts(service: SqlService) -> None:
    long = "x" * 10_000
    service.insert(Sender(ADMIN), "s", {}, [f'{{"k": "{long}"}}'] * 100, 0)
    answer = service.query(Sender(ADMIN), threading.Event(), "SELECT k FROM s;", {}, {}, "lists")
    sizes = [sum(map(len, batch)) for batch in answer]
    assert len(sizes) >= 4
    assert max(sizes) < 300_000


@pytest.fixture
def connection(tmp_path: Any) -> Iterator[socket.socket]:
    """The connection of a server to a SQL process, which is a thread here."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    with ours, theirs:
        running = threading.Thread(target=SqlProcess(theirs).run)
        running.start()
        ours.sendall(packed({"config": {"state.dir": str(tmp_path / "data")}}))
        assert receive(ours) == {"state": "ready", "reason": None}
        yield ours
        ours.shutdown(socket.SHUT_RDWR)
        running.join(30)
        assert not running.is_alive()


def call(connection: socket.socket, id_: int, method: str, **arguments: Any) -> None:
    sender = Sender.facts(ADMIN)
    connection.sendall(packed({"id": id_, "method": method, "arguments": {"sender": sender, **arguments}}))


def test_a_query_waits_until_its_rows_are_taken(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    call(connection, 1, "statements", text=STREAM, properties={}, variables={})
    assert "result" in (receive(connection) or {})
    query = {"text": "SELECT * FROM s EMIT CHANGES;", "properties": {}, "variables": {}, "rows": "lists"}
    call(connection, 2, "query", **query)
    first = receive(connection)
    assert first is not None
    assert first["items"][0] == "push"
    call(connection, 3, "insert", target="s", properties={}, lines=['{"v": 1}'], seq=0)
    answer = receive(connection)
    assert answer is not None
    assert answer["id"] == 3  # nothing of the query
    connection.sendall(packed({"id": 2, "more": True}))
    assert (receive(connection) or {})["items"] == ["[null,1]"]
    connection.sendall(packed({"id": 2, "cancel": True}))
    assert receive(connection) == {"id": 2, "result": None, "changes": []}
    monkeypatch.setattr(sql_process, "_STUCK_SECONDS", 0.05)
    call(connection, 4, "query", **query)
    assert (receive(connection) or {})["id"] == 4
    assert receive(connection) == {"id": 4, "result": None, "changes": []}  # it was not taken


def test_a_call_that_fails_unexpectedly_is_logged_and_does_not_end_the_process(
    connection: socket.socket, capfd: pytest.CaptureFixture[str]
) -> None:
    call(connection, 1, "statements", text=5, properties={}, variables={})
    assert receive(connection) == {"id": 1, "error": None, "changes": []}
    assert "Traceback" in capfd.readouterr().err
    call(connection, 2, "queries_of_nobody")
    assert (receive(connection) or {})["error"] is None
    call(connection, 3, "statements", text="SHOW TABLES;", properties={}, variables={})
    assert json.loads((receive(connection) or {})["result"])[0]["tables"] == []
