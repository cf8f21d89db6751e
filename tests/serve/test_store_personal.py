"""Personal fields of rows are hidden from viewers, also in cursors and from ranges of keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.serve.client import Client
from tests.serve.servers import Server, start_server

from millstream import App, avro, contract, tumbling
from millstream.log import ProducerRecord, open_log
from millstream.schemas.python_types import Tags
from millstream.schemas.registries import registry_of
from millstream.serde import SerdeContext

ROWS = "/api/v1/applications/people/stores/people/rows"
HIDDEN = "[hidden]"


@dataclass
class Person:
    name: Annotated[str, Tags("pii")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data: Path = tmp_path_factory.mktemp("people") / "data"
    app = App("people", state_dir=str(data), status="none")
    app.table("people", key=avro(Person), value=dict, contract=contract(tags={"mail": "pii"}), store="people")
    visits = app.stream("visits", key=avro(Person), value=str).group_by_key().windowed_by(tumbling("1m")).count()
    visits.filter(lambda _count: True, store="windowed")
    with open_log(data) as log:
        log.create_topic("people")
        log.create_topic("visits")
        keys = avro(Person).bind(SerdeContext("people", True, registry_of(app.id, app.config)))
        for name in ("anna", "beat", "cleo"):
            value = json.dumps({"mail": f"{name}@x", "n": 1}).encode()
            log.produce("people", [ProducerRecord(keys.serialize(Person(name)), value, 1)])
            log.produce("visits", [ProducerRecord(keys.serialize(Person(name)), b"x", 61_000)])
    app.run(mode="local", until_caught_up=True)
    with start_server(data) as server:
        yield server


def rows(client: Client, **query: Any) -> list[Any]:
    answer = client.get(ROWS, **query)
    assert answer.status == 200, answer.body
    return [(row["key"], row["value"]) for row in answer.json()["rows"]]


def test_viewers_do_not_see_personal_fields_of_keys_and_values(server: Server) -> None:
    hidden = ({"name": HIDDEN}, {"mail": HIDDEN, "n": 1})
    anna = ({"name": "anna"}, {"mail": "anna@x", "n": 1})
    assert rows(server.viewer) == [hidden] * 3
    assert rows(server.operator)[0] == anna
    assert rows(server.viewer, key='{"name":"anna"}') == [hidden]
    assert rows(server.operator, key='{"name":"anna"}') == [anna]
    for keys in ([{"name": "anna"}], [{"name": "nobody"}]):
        (row,) = server.viewer.post(ROWS, {"keys": keys}).json()["rows"]
        assert row["key"] == {"name": HIDDEN}
    assert server.viewer.get("/state/keyvalues/people/all").json()[0] == {"key": hidden[0], "value": hidden[1]}


def test_viewers_do_not_see_personal_fields_of_keys_with_windows(server: Server) -> None:
    path = "/api/v1/applications/people/stores/windowed/rows"
    window = {"start": 60_000, "end": 120_000}
    rows = server.viewer.get(path).json()["rows"]
    assert [(row["key"], row["window"]) for row in rows] == [({"name": HIDDEN}, window)] * 3
    rows = server.operator.get(path).json()["rows"]
    assert (rows[0]["key"], rows[0]["window"]) == ({"name": "anna"}, window)
    key = json.dumps({"key": {"name": "beat"}, "start": 60_000})
    assert [row["key"] for row in server.operator.get(path, key=key).json()["rows"]] == [{"name": "beat"}]


def test_a_cursor_does_not_show_a_hidden_key(server: Server) -> None:
    shown: list[Any] = []
    cursor = None
    while True:
        content = server.viewer.get(ROWS, limit=1, cursor=cursor).json()
        shown += content["rows"]
        cursor = content["cursor"]
        if cursor is None:
            break
        assert b"anna" not in base64.urlsafe_b64decode(cursor[1:] + "==")
        assert server.viewer.get(ROWS, limit=2, cursor=cursor, reverse=True).status == 400
    assert len(shown) == 3
    answer = server.viewer.get("/state/keyvalues/people/all", limit=1)
    assert b"anna" not in base64.urlsafe_b64decode(answer.headers["x-millstream-cursor"][1:] + "==")
    cursor = server.operator.get(ROWS, limit=1).json()["cursor"]
    assert b"anna" in base64.urlsafe_b64decode(cursor + "==")


def test_ranges_of_hidden_keys_are_refused_because_they_tell_a_key(server: Server) -> None:
    for query in ({"from": '{"name":"a"}'}, {"to": '{"name":"b"}'}):
        answer = server.viewer.get(ROWS, **query)
        assert (answer.status, answer.message[:31]) == (403, "the keys have personal fields: ")
        assert server.operator.get(ROWS, **query).status == 200
    path = "/state/keyvalues/people/range/%7B%22name%22%3A%22anna%22%7D/%7B%22name%22%3A%22anna%22%7D"
    assert server.viewer.get(path).status == 403
    assert len(server.operator.get(path).json()) == 1


def test_an_unknown_random_name_is_no_cursor(server: Server) -> None:
    assert server.viewer.get(ROWS, cursor=".AAAAAAAAAAAAAAAAAAAAAA").status == 400
