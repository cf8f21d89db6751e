"""Routes of applications, topics and consumer groups."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import LiveShop, Serving
from tests.serve.in_process import Senders, in_process
from tests.serve.servers import wait_until

from millstream import App, avro
from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role

APPLICATIONS = "/api/v1/applications"


@pytest.fixture(scope="module")
def shop(shop_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Senders]:
    data = tmp_path_factory.mktemp("operations") / "data"
    shutil.copytree(shop_data, data)
    with in_process(data) as server:
        yield Senders(server)


# ----- applications --------------------------------------------------------------------------------------------------


def test_an_application_that_has_stopped_is_listed_with_its_state(shop: Senders) -> None:
    (listed,) = shop.get(APPLICATIONS)["applications"]
    assert {name: listed[name] for name in ("id", "state", "live", "mode", "lag", "dropped")} == {
        "id": "shop", "state": "NOT_RUNNING", "live": False, "mode": "local", "lag": 0, "dropped": 1,
    }  # fmt: skip
    assert listed["rate_in"] == 0.0
    one = shop.get(f"{APPLICATIONS}/shop")
    assert one["metrics"]["sources"]["orders"]["read"] == 5
    assert one["errors"] == []


def test_an_unknown_application_is_not_served(shop: Senders) -> None:
    error = shop.get(f"{APPLICATIONS}/shpo")["error"]
    assert error == {
        "message": "there is no application 'shpo'", "code": "unknown-application", "hint": "did you mean 'shop'?",
    }  # fmt: skip
    assert shop.post(f"{APPLICATIONS}/shpo/pause")[0] == 404


def test_the_topology_is_that_of_the_last_start(shop: Senders) -> None:
    described = shop.get(f"{APPLICATIONS}/shop/topology")
    assert described["application_id"] == "shop"
    token = shop.server.access.tokens.create("reader", Role.VIEWER)
    for form, kind in (("text", "text/plain"), ("mermaid", "text/plain"), ("json", "application/json")):
        answer = shop.server.request("GET", f"{APPLICATIONS}/shop/topology?format={form}", token=token)
        assert answer.headers["content-type"].startswith(kind)
    assert shop.server.request("GET", f"{APPLICATIONS}/shop/topology?format=svg", token=token).status == 422
    shop.server.access.tokens.revoke("reader")


def test_an_application_that_does_not_run_takes_no_commands(shop: Senders) -> None:
    for command, role in (("pause", Role.OPERATOR), ("resume", Role.OPERATOR), ("stop", Role.ADMIN)):
        status, answer = shop.post(f"{APPLICATIONS}/shop/{command}", role=role)
        assert (status, "does not run: its state is NOT_RUNNING" in answer["error"]["message"]) == (409, True)


def test_a_running_application_is_paused_resumed_and_stopped(live_shop: LiveShop, serving: Serving) -> None:
    with serving(live_shop.data) as server:

        def state() -> str:
            return str(server.viewer.get(f"{APPLICATIONS}/shop").json()["state"])

        wait_until(lambda: state() == "RUNNING", "the report of a running application")
        assert server.anonymous().get("/readyz").json()["running"] == 1
        assert server.operator.post(f"{APPLICATIONS}/shop/pause").status == 202
        wait_until(lambda: state() == "PAUSED", "the pause")
        not_ready = server.anonymous().get("/readyz")
        assert (not_ready.status, not_ready.headers["retry-after"], not_ready.json()["not_running"]) == (503, "1", 1)
        assert server.operator.post(f"{APPLICATIONS}/shop/resume").status == 202
        wait_until(lambda: state() == "RUNNING", "the resumption")
        assert server.operator.post(f"{APPLICATIONS}/shop/stop").status == 403
        assert server.admin.post(f"{APPLICATIONS}/shop/stop").status == 202
        wait_until(lambda: state() == "NOT_RUNNING", "the stop")
        assert server.anonymous().get("/readyz").status == 200  # it was stopped on purpose


def test_a_server_of_one_application_knows_no_other(shop: Senders) -> None:
    with in_process(shop.server.data, application="other") as server:
        other = Senders.__new__(Senders)
        other.server, other._tokens = server, shop._tokens
        assert [each["id"] for each in other.get(APPLICATIONS)["applications"]] == ["other"]
        for part in ("", "/topology", "/configuration"):
            assert other.get(f"{APPLICATIONS}/shop{part}")["error"]["code"] == "unknown-application"
        assert other.get(f"{APPLICATIONS}/other")["error"]["code"] == "unknown-application"


def test_an_application_that_fails_is_shown_with_its_error(data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("numbers")
        log.produce("numbers", [ProducerRecord(b"a", b"x")])
    app = App("fails", state_dir=str(data), status="none")
    app.stream("numbers", key=str, value=str).map_values(int, value=int).to("out", key=str)
    with open_log(data) as log:
        log.create_topic("out")
    with pytest.raises(Exception, match="invalid literal"):
        app.run(mode="local", until_caught_up=True)
    with in_process(data) as server:
        senders = Senders(server)
        (listed,) = senders.get(APPLICATIONS)["applications"]
        assert (listed["state"], listed["live"]) == ("ERROR", False)
        assert "invalid literal for int()" in listed["error"]["message"]
        assert senders.get(f"{APPLICATIONS}/fails")["errors"] == [listed["error"]]
        assert server.request("GET", "/readyz").status == 503


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 99}'])
def test_a_report_that_cannot_be_read_is_left_out(shop_data: Path, data: Path, content: str) -> None:
    shutil.copytree(shop_data, data)
    (data / "applications" / "shop" / "run" / "report.json").write_text(content)
    with in_process(data) as server:
        senders = Senders(server)
        (listed,) = senders.get(APPLICATIONS)["applications"]
        assert (listed["id"], listed["state"]) == ("shop", "UNKNOWN")


def test_without_a_log_the_server_says_so_and_runs_on(data: Path) -> None:
    with in_process(data) as server:
        token = server.access.tokens.create("anna", Role.VIEWER)
        for path in (APPLICATIONS, "/api/v1/topics", "/api/v1/groups", "/api/v1/dead-letters"):
            answer = server.request("GET", path, token=token)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "there is no log" in answer.message
        with open_log(data):
            pass
        assert server.request("GET", "/api/v1/topics", token=token).json() == {"topics": []}


# ----- topics --------------------------------------------------------------------------------------------------------


def test_topics_are_listed_with_their_offsets_and_schemas(shop: Senders) -> None:
    topics = {topic["name"]: topic for topic in shop.get("/api/v1/topics")["topics"]}
    assert (topics["orders"]["partitions"], topics["orders"]["internal"]) == (2, False)
    assert topics["shop-minutes-repartition"]["internal"]
    one = shop.get("/api/v1/topics/customers")
    assert one["offsets"] == [{"partition": 0, "start": 0, "end": 2}]
    assert (one["schemas"]["key"]["serde"], one["schemas"]["value"]["serde"]) == ("long", "json")
    assert shop.get("/api/v1/topics/oders")["error"]["code"] == "unknown-topic"
    assert shop.get("/api/v1/topics/oders/records")["error"]["code"] == "unknown-topic"
    assert shop.get("/api/v1/topics/orders/records", partition=2)["error"]["code"] == "unknown-topic"


def test_records_are_read_from_an_offset_or_a_time_and_of_one_partition(shop: Senders) -> None:
    def offsets(**query: Any) -> list[tuple[int, int]]:
        records = shop.get("/api/v1/topics/prices/records", **query)["records"]
        return [(record["partition"], record["offset"]) for record in records]

    assert offsets() == [(0, 0), (0, 1)]
    assert offsets(offset=1) == [(0, 1)]
    assert offsets(offset=99) == []
    assert offsets(from_time=1_001) == [(0, 1)]
    assert offsets(from_time=2_001) == []
    assert offsets(newest="true") == [(0, 1), (0, 0)]
    assert offsets(newest="true", from_time=1_001) == [(0, 1)]
    assert offsets(partition=0, limit=1) == [(0, 0)]
    (record,) = shop.get("/api/v1/topics/prices/records", offset=1)["records"]
    assert record == {
        "partition": 0, "offset": 1, "timestamp": 2_000, "key": "tea", "value": 4, "headers": [],
    }  # fmt: skip


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 50])
def test_pages_have_each_record_once_and_in_order(data: Path, newest: bool, limit: int) -> None:
    with open_log(data) as log:
        log.create_topic("numbers", 3, {"cleanup.policy": "compact"})
        for part in range(6):  # times that repeat, and that go backwards now and then
            rows = [(n, 1_000 * part + (n * 7) % 40) for n in range(20)]
            log.produce("numbers", [ProducerRecord(str(n).encode(), b"x", t, (), n % 3) for n, t in rows])
        assert log.cleanup is not None
        log.cleanup.compact("numbers")
    with in_process(data) as server:
        senders = Senders(server)
        cursor, records, pages = None, [], 0
        while pages == 0 or cursor is not None:
            query: dict[str, Any] = {"newest": str(newest).lower(), "limit": limit, "cursor": cursor}
            page = senders.get("/api/v1/topics/numbers/records", **query)
            assert 0 < len(page["records"]) <= limit
            records += page["records"]
            cursor, pages = page["cursor"], pages + 1
        with open_log(data) as log:
            stored = [(p, o) for p in range(3) for o in log.read("numbers", p, 0, 99)["offset"].to_pylist()]
        places = [(record["partition"], record["offset"]) for record in records]
        assert sorted(places) == stored
        for partition in range(3):
            of_partition = [offset for number, offset in places if number == partition]
            assert of_partition == sorted(of_partition, reverse=newest)
        if newest:
            assert records[0]["timestamp"] // 1_000 == 5
            assert records[-1]["timestamp"] <= records[0]["timestamp"]


@pytest.mark.parametrize(
    "cursor", ["x", "[]", "1", '{"a": 1}', '{"0": -1}', '{"0": 1e400}', '{"0": 99999999999999999999}']
)
def test_a_cursor_of_another_route_is_refused(shop: Senders, cursor: str) -> None:
    error = shop.get("/api/v1/topics/orders/records", cursor=cursor)["error"]
    assert error["message"] == "the cursor is not one that this route has returned"


def test_values_without_a_form_in_json_are_shown(data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("doubles")
        log.create_topic("text")
        log.create_topic("objects")
        values = (float("nan"), float("inf"), -float("inf"), 1.5)
        log.produce("doubles", [ProducerRecord(None, struct.pack(">d", value)) for value in values])
        log.produce("text", [ProducerRecord(b"\xff", b"\x00\xff", 1, (("h", b"\xff"), ("n", None), ("\x1b", b"\x00")))])
        texts = [b"NaN", b"[1e400]", b'"\\ud800"', b"9" * 5_000, b"[" * 3_000, b'{"a": 1}']
        log.produce("objects", [ProducerRecord(None, text) for text in texts])
    app = App("reads", state_dir=str(data), status="none", deserialization_exception_handler="continue")
    app.stream("doubles", value=float).foreach(lambda _value: None)
    app.stream("objects", value=dict).foreach(lambda _value: None)
    app.run(mode="local", until_caught_up=True)
    with in_process(data) as server:
        senders = Senders(server)
        shown = senders.get("/api/v1/topics/doubles/records")["records"]
        assert [record["value"] for record in shown] == ["NaN", "Infinity", "-Infinity", 1.5]
        (text,) = senders.get("/api/v1/topics/text/records")["records"]
        assert (text["key_base64"], text["value_base64"]) == ("/w==", "AP8=")
        assert text["headers"] == [["h", {"base64": "/w=="}], ["n", None], ["\x1b", "\x00"]]
        objects = senders.get("/api/v1/topics/objects/records")["records"]
        assert len(objects) == 6
        assert objects[-1]["value"] == {"a": 1}


def test_records_are_written_by_the_serdes_of_the_topic(shop: Senders) -> None:
    body = {
        "records": [
            {"key": 7, "value": {"name": "Cy", "mail": "cy@example.com"}, "timestamp": 5, "headers": [["a", "b"]]},
            {"key": 8, "value": None},
        ]
    }  # fmt: skip
    status, written = shop.post("/api/v1/topics/customers/records", body)
    assert (status, written) == (201, {"records": [{"partition": 0, "offset": 2, "count": 2}]})
    records = shop.get("/api/v1/topics/customers/records", Role.OPERATOR, offset=2)["records"]
    assert records[0] | {"partition": 0} == {
        "partition": 0, "offset": 2, "timestamp": 5, "key": 7, "value": {"name": "Cy", "mail": "cy@example.com"},
        "headers": [["a", "b"]],
    }  # fmt: skip
    assert (records[1]["key"], records[1]["value"]) == (8, None)


@pytest.mark.parametrize(
    ("topic", "record", "status", "message"),
    [
        ("prices", {"key": "tea", "value": "much"}, 400, "records.0.value"),
        ("prices", {"key": "tea", "value": 1 << 63}, 400, "records.0.value"),
        ("prices", {"key": "tea", "value": [1]}, 400, "records.0.value"),
        ("prices", {"key": 7, "value": 1}, 400, "records.0.key"),
        ("prices", {"key": "tea", "value": 1, "partition": 3}, 404, "has no partition 3"),
        ("nothing", {"key": "a"}, 404, "there is no topic"),
        ("shop-prices-changelog", {"key": "a"}, 409, "is internal"),
        ("shop-minutes-repartition", {"key": "a"}, 409, "is internal"),
    ],
)
def test_a_record_that_does_not_fit_its_topic_is_refused(
    shop: Senders, topic: str, record: dict, status: int, message: str
) -> None:
    before = shop.get("/api/v1/topics/prices")["records"]
    answered, answer = shop.post(f"/api/v1/topics/{topic}/records", {"records": [{"key": "a", "value": 1}, record][1:]})
    assert (answered, message in answer["error"]["message"]) == (status, True), answer
    assert shop.get("/api/v1/topics/prices")["records"] == before


def test_records_with_a_schema_are_read_and_written_by_it(data: Path) -> None:
    schema = {
        "type": "record",
        "name": "Sale",
        "fields": [{"name": "item", "type": "string"}, {"name": "n", "type": "int"}],
    }
    with open_log(data) as log:
        log.create_topic("words")
        log.create_topic("sales")
        log.produce("words", [ProducerRecord(b"k", b"tea")])
    app = App("sells", state_dir=str(data), status="none")
    app.stream("words", key=str, value=str).map_values(lambda word: {"item": word, "n": 1}).to(
        "sales", key=str, value=avro(json.dumps(schema))
    )
    app.run(mode="local", until_caught_up=True)
    with in_process(data) as server:
        senders = Senders(server)
        path = "/api/v1/topics/sales/records"
        (record,) = senders.get(path)["records"]
        assert (record["value"], record["value_schema_id"]) == ({"item": "tea", "n": 1}, 1)
        status, _ = senders.post(path, {"records": [{"key": "k", "value": {"item": "milk", "n": 2}}]})
        assert status == 201
        assert senders.get(path, offset=1)["records"][0]["value"] == {"item": "milk", "n": 2}
        for value in ("text", {"item": "milk"}, {"item": 1, "n": 2}, 7):
            status, answer = senders.post(path, {"records": [{"key": "k", "value": value}]})
            assert (status, "records.0.value" in answer["error"]["message"]) == (400, True), answer


# ----- groups --------------------------------------------------------------------------------------------------------


def test_a_group_shows_its_offsets_and_its_lag(live_shop: LiveShop) -> None:
    live_shop.produce("prices", ProducerRecord(b"tea", (3).to_bytes(8), 1_000))
    with in_process(live_shop.data) as server:
        senders = Senders(server)

        def prices() -> dict:
            offsets = senders.get("/api/v1/groups/shop").get("offsets", [])
            return next((each for each in offsets if each["topic"] == "prices" and each["offset"] == 1), {})

        assert wait_until(prices, "the commit") == {"topic": "prices", "partition": 0, "offset": 1, "end": 1, "lag": 0}
        live_shop.handle.pause()
        live_shop.handle.stop()
        live_shop.produce("prices", *[ProducerRecord(b"tea", (4).to_bytes(8), 2_000)] * 3)
        assert senders.get("/api/v1/groups/shop")["lag"] == 3
        assert senders.get("/api/v1/groups")["groups"] == ["shop"]
        assert senders.get("/api/v1/groups/shpo")["error"] == {
            "message": "there is no consumer group 'shpo'", "code": "unknown-group", "hint": "did you mean 'shop'?",
        }  # fmt: skip
