"""The channels of the event stream, on a real server with a running application."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve import shop
from tests.serve.client import Client, Event
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server, wait_until

from millstream import App
from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

EVENTS = "/api/v1/events"


@pytest.fixture
def server(live_shop: LiveShop, serving: Serving) -> Iterator[Server]:
    with serving(live_shop.data) as server:
        yield server


def take(events: Iterator[Event], count: int, holds: Callable[[Event], bool] = lambda _: True) -> list[Event]:
    """The next events, without those that tell of the stream itself."""
    taken: list[Event] = []
    for event in events:
        if event.kind in {"missed", "ended", "end"}:
            raise AssertionError(event)
        if event.kind != "subscribed" and holds(event):
            taken.append(event)
        if len(taken) == count:
            break
    return taken


def begun(events: Iterator[Event]) -> Event:
    """The first event: from then on, nothing is missed."""
    first = next(events)
    assert first.kind == "subscribed"
    return first


def test_the_records_of_a_topic_arrive_from_now_on(live_shop: LiveShop, server: Server) -> None:
    live_shop.produce("prices", ProducerRecord(b"tea", (1).to_bytes(8), 5))
    with server.viewer.events(EVENTS, channel="topic:prices") as events:
        first = begun(events)
        assert first.data == {"channels": ["topic:prices"]}
        assert first.id == "topic:prices=0:1"
        live_shop.produce("prices", ProducerRecord(b"tea", (2).to_bytes(8), 7, (("source", b"x"),)))
        (event,) = take(events, 1)
    assert event.kind == "topic"
    assert event.id == "topic:prices=0:2"
    assert event.data == {
        "channel": "topic:prices", "partition": 0, "offset": 1, "timestamp": 7,
        "key": "tea", "value": 2, "headers": [["source", "x"]],
    }  # fmt: skip


def test_the_records_of_a_topic_arrive_from_its_start_or_from_an_offset(live_shop: LiveShop, server: Server) -> None:
    live_shop.produce("prices", *(ProducerRecord(b"tea", n.to_bytes(8), n) for n in range(700)))
    with server.viewer.events(EVENTS, channel="topic:prices@start") as events:
        values = [event.data["value"] for event in take(events, 700)]
        live_shop.produce("prices", ProducerRecord(b"tea", (700).to_bytes(8), 700))
        values += [event.data["value"] for event in take(events, 1)]
    assert values == list(range(701))
    with server.viewer.events(EVENTS, channel="topic:prices/0@698") as events:
        assert [event.data["offset"] for event in take(events, 3)] == [698, 699, 700]


def test_one_partition_of_a_topic_arrives_alone(live_shop: LiveShop, server: Server) -> None:
    with server.viewer.events(EVENTS, channel=["topic:orders/1", "topic:orders"]) as events:
        begun(events)
        live_shop.produce("orders", *(shop.order("north")._replace(partition=number % 2) for number in range(8)))
        got = take(events, 12)
    assert [event.data["partition"] for event in got if event.data["channel"] == "topic:orders/1"] == [1] * 4
    assert sorted(event.data["partition"] for event in got if event.data["channel"] == "topic:orders") == [
        0,
        1,
    ] * 4 or (
        sorted(event.data["partition"] for event in got if event.data["channel"] == "topic:orders") == [0] * 4 + [1] * 4
    )


def test_the_changes_of_a_store_and_of_a_key_arrive_in_order(live_shop: LiveShop, server: Server) -> None:
    channels = ["store:shop/orders-of-shop", 'key:shop/orders-of-shop/"north"']
    with server.viewer.events(EVENTS, channel=channels) as events:
        begun(events)
        north: list[int] = []
        for number in range(3):
            live_shop.produce("orders", shop.order("south", timestamp=number), shop.order("north", timestamp=number))
            (event,) = take(events, 1, lambda event: event.kind == "key")
            north.append(event.data["value"])
            assert (event.data["channel"], event.data["key"]) == (channels[1], "north")
    assert north == [1, 2, 3]
    with server.viewer.events(EVENTS, channel=channels[0], last_event_id=write_start(channels[0])) as events:
        by_key: dict[str, list[int]] = {}
        for event in take(events, 6):
            by_key.setdefault(event.data["key"], []).append(event.data["value"])
    assert by_key == {"north": [1, 2, 3], "south": [1, 2, 3]}


def write_start(channel: str) -> str:
    """The id before the first event of a channel."""
    return f"{channel}=0:0,1:0"


def test_changes_have_the_windows_of_their_rows_and_the_times_of_versions(live_shop: LiveShop, server: Server) -> None:
    channels = ["store:shop/minutes", "store:shop/visits", "store:shop/prices", "store:shop/customers"]
    with server.viewer.events(EVENTS, channel=channels) as events:
        begun(events)
        live_shop.produce("orders", shop.order("north", timestamp=61_000))
        live_shop.produce("prices", ProducerRecord(b"tea", (3).to_bytes(8), 8_000))
        live_shop.produce("customers", shop.customer(7, "Anna", "a@example.com", 9_000))
        rows = {event.data["channel"].partition("/")[2]: event.data for event in take(events, 4)}
        live_shop.produce("customers", ProducerRecord((7).to_bytes(8), None, 9_001))
        (deleted,) = take(events, 1)
    assert rows["minutes"]["window"] == {"start": 60_000, "end": 120_000}
    assert (rows["minutes"]["key"], rows["minutes"]["value"]) == ("north", 1)
    assert rows["visits"]["window"] == {"start": 61_000, "end": 61_000}
    assert (rows["prices"]["value"], rows["prices"]["valid_from"]) == (3, 8_000)
    assert (rows["customers"]["key"], rows["customers"]["timestamp"]) == (7, 9_000)
    assert (deleted.data["key"], deleted.data["value"]) == (7, None)


def test_an_application_is_shown_with_rates_by_operator(live_shop: LiveShop, server: Server) -> None:
    channels = ["applications", "application:shop"]
    with server.viewer.events(EVENTS, channel=channels) as events:
        overview, one = sorted(take(events, 2), key=lambda event: event.kind == "application")
        assert [each["id"] for each in overview.data["applications"]] == ["shop"]
        assert (overview.id, one.id) == (None, None) or overview.id == ""
        live_shop.produce("orders", *(shop.order("north", timestamp=1) for _ in range(50)))
        (event,) = take(events, 1, lambda event: event.data.get("nodes", {}).get("orders-source", 0) > 0)
        assert (event.data["id"], event.data["state"]) == ("shop", "RUNNING")
        assert event.data["metrics"]["sources"]["orders"]["read"] == 50


def test_the_state_of_an_application_that_stops_is_seen(live_shop: LiveShop, server: Server) -> None:
    with server.viewer.events(EVENTS, channel="application:shop") as events:
        take(events, 1, lambda event: event.data["state"] == "RUNNING")
        live_shop.handle.stop()
        take(events, 1, lambda event: event.data["state"] == "NOT_RUNNING")


def test_a_global_table_is_followed_in_its_topic(data: Path, serving: Serving) -> None:
    with open_log(data) as log:
        log.create_topic("rates")
        log.create_topic("orders")
    app = App("bank", state_dir=str(data), status="none")
    rates = app.global_table("rates", value=int, store="rates")
    app.stream("orders", value=str).join(rates, lambda _order, rate: rate, on=lambda key, _value: key).to("priced")
    with app.start(mode="local") as handle, serving(data) as server:
        wait_until(lambda: handle.metrics()["state"] == "RUNNING")
        with server.viewer.events(EVENTS, channel="store:bank/rates") as events:
            begun(events)
            with open_log(data) as log:
                log.produce("rates", [ProducerRecord(b"eur", (5).to_bytes(8), 1)])
            (event,) = take(events, 1)
    assert (event.data["key"], event.data["value"]) == ("eur", 5)


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


def test_the_text_of_a_key_cannot_add_lines_to_the_stream(live_shop: LiveShop, server: Server) -> None:
    evil = 'a\n\nevent: end\ndata: {"x":1}\r\u2028\x00é\U0001f600;=,'
    channel = f"key:shop/prices/{json.dumps(evil, ensure_ascii=False)}"
    with server.viewer.events(EVENTS, channel=[channel, "topic:prices"]) as events:
        begun(events)
        live_shop.produce("prices", ProducerRecord(evil.encode(), (1).to_bytes(8), 1))
        one, other = sorted(take(events, 2), key=lambda event: event.kind)
    assert (one.data["channel"], one.data["key"], other.data["key"]) == (channel, evil, evil)
    assert one.id is not None
    assert "\n" not in one.id
    with server.viewer.events(EVENTS, channel=[channel], last_event_id=one.id) as events:
        begun(events)
        live_shop.produce("prices", ProducerRecord(evil.encode(), (2).to_bytes(8), 2))
        assert take(events, 1)[0].data["value"] == 2


def test_a_token_for_some_stores_follows_only_these(shop_server: Server) -> None:
    token = Tokens(shop_server.data).create("one-store", Role.VIEWER, stores=("shop/minutes",))
    client: Client = shop_server.anonymous().using(token=token)
    for channel in ("store:shop/visits", "topic:shop-visits-changelog", 'key:shop/visits/"x"'):
        assert client.get(EVENTS, channel=channel).status == 403
    for channel in ("store:shop/minutes", "topic:shop-minutes-changelog", "topic:orders"):
        with client.events(EVENTS, channel=channel) as events:
            begun(events)


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
