"""The channels of the event stream, on a real server with a running application."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.serve import shop
from tests.serve.client import Client, Event
from tests.serve.conftest import Running
from tests.serve.events import EVENTS, begun, of_kind, take
from tests.serve.servers import Server, wait_until

from millstream import App, Materialized
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

MOMENTS = itertools.count(3_600_000, 3_600_000)
"""Times of the records of tests: the next test is an hour later, so that its records are not late."""


def of_keys(*keys: Any) -> Callable[[Event], bool]:
    """Leaves out the rows of other tests, which the application may still process."""
    return lambda event: event.data["key"] in keys


def test_the_records_of_a_topic_arrive_from_now_on(running: Running) -> None:
    running.shop.produce("prices", ProducerRecord(b"tea", (1).to_bytes(8), 5))
    with running.viewer.events(EVENTS, channel="topic:prices") as events:
        first = begun(events)
        assert first.data == {"channels": ["topic:prices"]}
        assert first.id is not None
        offset = int(first.id.removeprefix("topic:prices=0:"))
        running.shop.produce("prices", ProducerRecord(b"tea", (2).to_bytes(8), 7, (("source", b"x"),)))
        (event,) = take(events, 1)
    assert event.kind == "topic"
    assert event.id == f"topic:prices=0:{offset + 1}"
    assert event.data == {
        "channel": "topic:prices", "partition": 0, "offset": offset, "timestamp": 7,
        "key": "tea", "value": 2, "headers": [["source", "x"]],
    }  # fmt: skip


def test_the_records_of_a_topic_arrive_from_its_start_or_from_an_offset(running: Running) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("many")
        log.produce("many", [ProducerRecord(b"k", str(number).encode(), number) for number in range(700)])
        with running.viewer.events(EVENTS, channel="topic:many@start") as events:
            values = [event.data["value"] for event in take(events, 700)]
            log.produce("many", [ProducerRecord(b"k", b"700", 700)])
            values += [event.data["value"] for event in take(events, 1)]
    assert values == [str(number) for number in range(701)]
    with running.viewer.events(EVENTS, channel="topic:many/0@698") as events:
        assert [event.data["offset"] for event in take(events, 3)] == [698, 699, 700]


def test_one_partition_of_a_topic_arrives_alone(running: Running) -> None:
    with running.viewer.events(EVENTS, channel=["topic:orders/1", "topic:orders"]) as events:
        begun(events)
        now = next(MOMENTS)
        orders = [shop.order("east", timestamp=now)._replace(partition=number % 2) for number in range(8)]
        running.shop.produce("orders", *orders)
        partitions: dict[str, list[int]] = {}
        for event in take(events, 12):
            partitions.setdefault(event.data["channel"], []).append(event.data["partition"])
    assert partitions["topic:orders/1"] == [1] * 4
    assert sorted(partitions["topic:orders"]) == [0] * 4 + [1] * 4


def test_the_changes_of_a_store_and_of_a_key_arrive_in_order(running: Running) -> None:
    channels = ["store:shop/orders-of-shop", 'key:shop/orders-of-shop/"up"']
    with running.viewer.events(EVENTS, channel=channels) as events:
        first = begun(events)
        values: list[int] = []
        for _ in range(3):
            now = next(MOMENTS)
            running.shop.produce("orders", shop.order("down", timestamp=now), shop.order("up", timestamp=now))
            (event,) = of_kind(events, "key")
            values.append(event.data["value"])
            assert (event.data["channel"], event.data["key"]) == (channels[1], "up")
    assert values == [1, 2, 3]
    with running.viewer.events(EVENTS, channel=channels[0], last_event_id=first.id) as events:
        by_key: dict[str, list[int]] = {}
        for event in take(events, 6, of_keys("up", "down")):
            by_key.setdefault(event.data["key"], []).append(event.data["value"])
    assert by_key == {"up": [1, 2, 3], "down": [1, 2, 3]}


def test_changes_have_the_windows_of_their_rows_and_the_times_of_versions(running: Running) -> None:
    channels = ["store:shop/minutes", "store:shop/visits", "store:shop/prices", "store:shop/customers"]
    with running.viewer.events(EVENTS, channel=channels) as events:
        begun(events)
        now = next(MOMENTS)
        running.shop.produce("orders", shop.order("centre", timestamp=now + 1_000))
        running.shop.produce("prices", ProducerRecord(b"milk", (3).to_bytes(8), now))
        running.shop.produce("customers", shop.customer(77, "Anna", "a@example.com", 9_000))
        rows = {
            event.data["channel"].partition("/")[2]: event.data
            for event in take(events, 4, of_keys("centre", "milk", 77))
        }
        running.shop.produce("customers", ProducerRecord((77).to_bytes(8), None, 9_001))
        (deleted,) = take(events, 1)
    assert rows["minutes"]["window"] == {"start": now, "end": now + 60_000}
    assert (rows["minutes"]["key"], rows["minutes"]["value"]) == ("centre", 1)
    assert rows["visits"]["window"] == {"start": now + 1_000, "end": now + 1_000}
    assert (rows["prices"]["key"], rows["prices"]["value"], rows["prices"]["valid_from"]) == ("milk", 3, now)
    assert (rows["customers"]["key"], rows["customers"]["timestamp"]) == (77, 9_000)
    assert (deleted.data["key"], deleted.data["value"]) == (77, None)


def test_an_application_is_shown_with_rates_by_operator(running: Running) -> None:
    channels = ["applications", "application:shop"]
    with running.viewer.events(EVENTS, channel=channels) as events:
        overview, one = sorted(take(events, 2), key=lambda event: event.kind == "application")
        assert "shop" in {each["id"] for each in overview.data["applications"]}
        read = one.data["metrics"]["sources"]["orders"]["read"]
        now = next(MOMENTS)
        running.shop.produce("orders", *(shop.order("fast", timestamp=now) for _ in range(50)))
        (event,) = take(events, 1, lambda event: event.data.get("nodes", {}).get("orders-source", 0) > 0)
        assert (event.data["id"], event.data["state"]) == ("shop", "RUNNING")
        assert event.data["metrics"]["sources"]["orders"]["read"] > read


def test_an_application_that_does_not_run_is_shown_once(shop_server: Server) -> None:
    with shop_server.viewer.events(EVENTS, channel=["application:shop", "applications"]) as events:
        shown = {event.kind: event.data for event in take(events, 2)}
    assert shown["application"]["state"] == "NOT_RUNNING"
    assert [each["state"] for each in shown["applications"]["applications"]] == ["NOT_RUNNING"]


def test_a_global_table_is_followed_in_its_topic(running: Running) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("rates")
        log.create_topic("payments")
    app = App("bank", state_dir=str(running.shop.data), status="none")
    rates = app.global_table("rates", value=int, store="rates")
    app.stream("payments", value=str).join(rates, lambda _payment, rate: rate, on=lambda key, _value: key).to("priced")
    with app.start(mode="local") as handle:
        wait_until(lambda: handle.metrics()["state"] == "RUNNING")
        with running.viewer.events(EVENTS, channel="store:bank/rates") as events:
            begun(events)
            running.shop.produce("rates", ProducerRecord(b"eur", (5).to_bytes(8), 1))
            (event,) = take(events, 1)
    assert (event.data["key"], event.data["value"]) == ("eur", 5)


def test_in_micro_batches_a_table_is_followed_in_its_source_topic_and_a_store_without_a_changelog_is_not(
    running: Running,
) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("names")
        log.produce("names", [ProducerRecord(b"1", b"Anna", 1)])
    app = App("batches", state_dir=str(running.shop.data), topology_optimization="all")
    names = app.table("names", value=str, store="names")
    names.group_by(lambda key, value: (value, key)).count(store=Materialized("quiet", logging=False))
    names.group_by(lambda key, value: (value, key)).count(store="counts")
    with InProcessRun(app) as run:
        run.run()
        refused = running.viewer.get(EVENTS, channel="store:batches/quiet")
        assert (refused.status, "has no changelog" in refused.message) == (409, True)
        with running.viewer.events(EVENTS, channel=["store:batches/names", "store:batches/counts"]) as events:
            begun(events)
            running.shop.produce("names", ProducerRecord(b"2", b"Bo", 2))
            run.run()
            rows = {event.data["channel"]: event.data for event in take(events, 2)}
    assert (rows["store:batches/names"]["key"], rows["store:batches/names"]["value"]) == ("2", "Bo")
    assert (rows["store:batches/counts"]["key"], rows["store:batches/counts"]["value"]) == ("Bo", 1)


@pytest.mark.parametrize(
    ("channels", "status"),
    [
        ([], 422),
        (["words"], 400),
        (["topic"], 400),
        (["topic:"], 400),
        (["topic:../../etc/passwd"], 400),
        (["topic:orders/x"], 400),
        (["topic:orders/٣"], 400),
        (["topic:orders/99"], 404),
        (["topic:orders@99"], 400),
        (["topic:orders@-1"], 400),
        (["topic:nothing"], 404),
        (["topic:orders\nid: 5"], 400),
        (["store:shop"], 400),
        (["store:shop/"], 400),
        (["store:shop/a/b"], 400),
        (["store:nobody/minutes"], 404),
        (["store:shop/nothing"], 404),
        (["store:shop/<script>"], 400),
        (["key:shop/minutes"], 400),
        (["key:shop/minutes/"], 400),
        (["key:shop/minutes/north"], 400),
        (["key:shop/minutes/5"], 400),
        (['key:shop/minutes/"\\ud800"'], 400),
        (["key:shop/minutes/null"], 400),
        (["key:shop/minutes/" + "[" * 1900], 400),
        (["key:shop/customers/1e400"], 400),
        (["key:shop/customers/99999999999999999999"], 400),
        (["application:"], 400),
        (["application:nobody"], 404),
        (["applications:"], 400),
        (["alerts:x"], 400),
        (["alerts", "x" * 3000], 400),
        ([f"topic:orders@{n}" for n in range(1000)], 422),
        ([f"application:a{n}" for n in range(51)], 400),
    ],
)
def test_a_channel_that_does_not_exist_is_refused(shop_server: Server, channels: list[str], status: int) -> None:
    answer = shop_server.viewer.get(EVENTS, channel=channels)
    assert answer.status == status, answer.body
    assert "Traceback" not in answer.body.decode()
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("id_", ["x", "=", "a=b", "a=0:1,", "a=0:-1", "topic:prices=0:" + "9" * 30, "é=0:1", "a=0:٣"])
def test_an_id_that_no_server_has_sent_is_refused(shop_server: Server, id_: str) -> None:
    assert shop_server.viewer.get(EVENTS, channel="topic:prices", last_event_id=id_).status == 400


def test_the_text_of_a_key_cannot_add_lines_to_the_stream(running: Running) -> None:
    evil = 'a\n\nevent: end\ndata: {"x":1}\r\u2028\x00é\U0001f600;=,'
    channel = f"key:shop/prices/{json.dumps(evil, ensure_ascii=False)}"
    with running.viewer.events(EVENTS, channel=[channel, "topic:prices"]) as events:
        begun(events)
        running.shop.produce("prices", ProducerRecord(evil.encode(), (1).to_bytes(8), next(MOMENTS)))
        one, other = sorted(take(events, 2), key=lambda event: event.kind)
    assert (one.data["channel"], one.data["key"], other.data["key"]) == (channel, evil, evil)
    assert one.id is not None
    assert "\n" not in one.id
    with running.viewer.events(EVENTS, channel=[channel], last_event_id=one.id) as events:
        begun(events)
        running.shop.produce("prices", ProducerRecord(evil.encode(), (2).to_bytes(8), next(MOMENTS)))
        assert take(events, 1)[0].data["value"] == 2


def test_a_token_for_some_stores_follows_only_these(shop_server: Server) -> None:
    token = Tokens(shop_server.data).create("one-store", Role.VIEWER, stores=("shop/minutes",))
    client: Client = shop_server.anonymous().using(token=token)
    for channel in ("store:shop/visits", "topic:shop-minutes-changelog", 'key:shop/visits/"x"', "applications"):
        assert client.get(EVENTS, channel=["store:shop/minutes", channel]).status == 403
    with client.events(EVENTS, channel=["store:shop/minutes", 'key:shop/minutes/"north"']) as events:
        begun(events)


def test_personal_fields_are_hidden_from_viewers(running: Running) -> None:
    channels = ["topic:customers", "store:shop/customers", "key:shop/customers/7", "topic:shop-customers-changelog"]
    with (
        running.viewer.events(EVENTS, channel=channels) as hidden,
        running.server.operator.events(EVENTS, channel=channels) as shown,
    ):
        begun(hidden)
        begun(shown)
        running.shop.produce("customers", shop.customer(7, "Anna", "anna@example.com"))
        mails = [{event.data["value"]["mail"] for event in take(events, 4, of_keys(7))} for events in (hidden, shown)]
    assert mails == [{"[hidden]"}, {"anna@example.com"}]


def test_no_stream_without_a_token(shop_server: Server) -> None:
    assert shop_server.anonymous().get(EVENTS, channel="applications").status == 401


def test_the_answer_is_an_event_stream_that_nothing_stores(shop_server: Server) -> None:
    connection = shop_server.viewer.connect()
    token = shop_server.token(Role.VIEWER)
    connection.request("GET", f"{EVENTS}?channel=applications", headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    headers: dict[str, Any] = {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
