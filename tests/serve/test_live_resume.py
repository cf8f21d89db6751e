"""Event streams that continue after a disconnect: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from tests.serve import shop
from tests.serve.client import Event
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server, wait_until

from millstream.log import ProducerRecord, open_log

EVENTS = "/api/v1/events"


def price(number: int) -> ProducerRecord:
    return ProducerRecord(b"tea", number.to_bytes(8), number)


def of_kind(events: Iterator[Event], kind: str, count: int) -> list[Event]:
    """The next events of a kind. Nothing may be missed meanwhile."""
    taken: list[Event] = []
    for event in events:
        assert event.kind not in {"missed", "ended", "end"}, event
        if event.kind == kind:
            taken.append(event)
        if len(taken) == count:
            break
    return taken


def test_a_stream_continues_after_its_last_event(live_shop: LiveShop, serving: Serving) -> None:
    channels = ["topic:prices", "topic:orders", "store:shop/orders-of-shop", "applications"]
    offsets: dict[tuple[str, int], list[int]] = {}
    counts: list[int] = []
    last: str | None = None
    with serving(live_shop.data) as server:
        for round_ in range(6):
            with server.viewer.events(EVENTS, channel=channels, last_event_id=last) as events:
                if round_ == 0:
                    assert next(events).kind == "subscribed"
                live_shop.produce("orders", *(shop.order("north")._replace(partition=n % 2) for n in range(4)))
                live_shop.produce("prices", price(1), price(2))
                # It is cut at any event: some of this round come in the next one.
                for _ in range(5):
                    event = _next_with_id(events)
                    last = event.id
                    _note(event, offsets, counts)
        with server.viewer.events(EVENTS, channel=channels, last_event_id=last) as events:
            while len(offsets.get(("topic:prices", 0), [])) < 12 or not counts or counts[-1] < 24:
                _note(_next_with_id(events), offsets, counts)
            while sum(map(len, offsets.values())) < 36:
                _note(_next_with_id(events), offsets, counts)
    assert offsets == {
        ("topic:prices", 0): [*range(12)],
        ("topic:orders", 0): [*range(12)],
        ("topic:orders", 1): [*range(12)],
    }
    assert counts == sorted(set(counts))


def _next_with_id(events: Iterator[Event]) -> Event:
    for event in events:
        assert event.kind not in {"missed", "ended", "end"}, event
        if event.kind in {"topic", "store"}:
            return event
    raise AssertionError("the stream has ended")


def _note(event: Event, offsets: dict[tuple[str, int], list[int]], counts: list[int]) -> None:
    if event.kind == "store":
        counts.append(event.data["value"])
    else:
        offsets.setdefault((event.data["channel"], event.data["partition"]), []).append(event.data["offset"])


def test_a_stream_continues_on_another_server(live_shop: LiveShop, serving: Serving) -> None:
    channels = ["topic:prices", 'key:shop/prices/"tea"', "alerts"]
    with serving(live_shop.data) as server, server.viewer.events(EVENTS, channel=channels) as events:
        assert next(events).kind == "subscribed"
        live_shop.produce("prices", price(0))
        both = [next(events), next(events)]
        last = both[1].id
    live_shop.produce("prices", *(price(number) for number in range(1, 3000)))
    with serving(live_shop.data) as server:
        with server.viewer.events(EVENTS, channel=channels, last_event_id=last) as events:
            assert [event.data["offset"] for event in of_kind(events, "topic", 2999)] == [*range(1, 3000)]
        with server.viewer.events(EVENTS, channel=channels[1], last_event_id=last) as events:
            value = 0
            while value < 2999:  # a commit has the last change of a key, and versions can be repeated
                (event,) = of_kind(events, "key", 1)
                assert event.data["value"] >= value
                value = event.data["value"]


def test_the_id_of_a_stream_with_other_channels_continues_those_that_it_had(
    live_shop: LiveShop, serving: Serving
) -> None:
    with serving(live_shop.data) as server:
        with server.viewer.events(EVENTS, channel="topic:prices") as events:
            first = next(events)
        live_shop.produce("prices", price(5))
        live_shop.produce("orders", shop.order("north"))
        with server.viewer.events(
            EVENTS, channel=["topic:orders", "topic:prices", "topic:prices@start"], last_event_id=first.id
        ) as events:
            assert next(events).kind == "subscribed"
            got = {event.data["channel"] for event in of_kind(events, "topic", 2)}
            assert got == {"topic:prices", "topic:prices@start"}


def test_the_header_of_a_browser_that_connects_again_counts_before_the_address(
    live_shop: LiveShop, serving: Serving
) -> None:
    live_shop.produce("prices", *map(price, range(5)))
    path = f"{EVENTS}?channel=topic:prices&last_event_id=topic:prices%3D0:1"
    with serving(live_shop.data) as server:
        with server.viewer.events(path) as events:
            assert of_kind(events, "topic", 1)[0].data["offset"] == 1
        with server.viewer.events(path, last_event_id="topic:prices=0:3") as events:
            assert of_kind(events, "topic", 1)[0].data["offset"] == 3


def test_records_that_retention_has_deleted_are_reported_as_missed(data: Path, serving: Serving) -> None:
    with open_log(data) as log, serving(data) as server:
        log.create_topic("a")
        for number in range(4):
            log.produce("a", [price(number)])
        log.delete_records({("a", 0): 3})
        assert log.starts(["a"])["a"] == [3]
        with server.viewer.events(EVENTS, channel="topic:a", last_event_id="topic:a=0:1") as events:
            assert next(events).kind == "subscribed"
            missed = next(events)
            assert missed.kind == "missed"
            assert missed.data["channels"] == {"topic:a": [{"partition": 0, "from": 1, "to": 3}]}
            assert of_kind(events, "topic", 1)[0].data["offset"] == 3


def test_a_topic_that_is_deleted_ends_its_channel_and_no_other(data: Path, serving: Serving) -> None:
    with open_log(data) as log:
        log.create_topic("a")
        log.create_topic("b")
        with serving(data) as server:
            with server.viewer.events(EVENTS, channel=["topic:a", "topic:b"]) as events:
                assert next(events).kind == "subscribed"
                log.delete_topic("a")
                ended = next(events)
                assert (ended.kind, ended.data["channel"]) == ("ended", "topic:a")
                log.produce("b", [price(1)])
                assert of_kind(events, "topic", 1)[0].data["channel"] == "topic:b"
            log.create_topic("a")
            # The id has an offset that the new topic has not reached: the stream tells so.
            with server.viewer.events(EVENTS, channel="topic:a", last_event_id="topic:a=0:7") as events:
                assert next(events).kind == "subscribed"
                missed = next(events)
                assert missed.data["channels"] == {"topic:a": [{"partition": 0, "from": 7, "to": 0}]}
                log.produce("a", [price(1)])
                assert of_kind(events, "topic", 1)[0].data["offset"] == 0


APPLICATION = """
import sys
from pathlib import Path
from tests.serve import shop

shop.build(Path(sys.argv[1]), report_interval_ms=50).run(mode="local")
"""


@contextmanager
def application(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The application in a process of its own."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    with subprocess.Popen([sys.executable, "-c", dedent(APPLICATION), str(data)], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_stream_goes_on_when_the_application_is_killed_and_comes_back(data: Path, serving: Serving) -> None:
    shop.create_topics(data)
    channels = ["application:shop", "store:shop/orders-of-shop"]
    with serving(data) as server, open_log(data) as log:
        with application(data) as process:
            wait_until(lambda: _state(server) == "RUNNING", "the start")
            log.produce("orders", [shop.order("north", timestamp=1)])
            wait_until(lambda: any(log.ends(["shop-orders-of-shop-changelog"])["shop-orders-of-shop-changelog"]))
            connection = server.viewer.events(EVENTS, channel=channels)
            events = connection.__enter__()
            assert next(events).kind == "subscribed"
            log.produce("orders", [shop.order("north", timestamp=2)])
            counts = [of_kind(events, "store", 1)[0].data["value"]]
            process.kill()
            _await_state(events, "KILLED")
        log.produce("orders", [shop.order("north", timestamp=3)])
        with application(data):
            counts.append(of_kind(events, "store", 1)[0].data["value"])
            _await_state(events, "RUNNING")
            connection.__exit__(None, None, None)
    assert counts == [2, 3]


def _await_state(events: Iterator[Event], state: str) -> None:
    while of_kind(events, "application", 1)[0].data["state"] != state:
        pass


def _state(server: Server) -> str:
    answer = server.viewer.get("/api/v1/applications")
    applications = answer.json()["applications"] if answer.status == 200 else []
    return str(applications[0]["state"]) if applications else ""
