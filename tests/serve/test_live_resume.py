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
from tests.serve.conftest import LiveShop, Running, Serving
from tests.serve.events import EVENTS, begun, of_kind, take
from tests.serve.servers import Server, wait_until

from millstream.log import ProducerRecord, open_log


def price(number: int) -> ProducerRecord:
    return ProducerRecord(b"tea", number.to_bytes(8), number)


def test_a_stream_continues_after_its_last_event(running: Running) -> None:
    offsets: dict[tuple[str, int], list[int]] = {}
    counts: list[int] = []
    last: str | None = None

    def note(event: Event) -> str | None:
        if event.kind == "key":
            counts.append(event.data["value"])
        else:
            offsets.setdefault((event.data["channel"], event.data["partition"]), []).append(event.data["offset"])
        return event.id

    with open_log(running.shop.data) as log:
        log.create_topic("one")
        log.create_topic("two", 2)
        channels = ["topic:one", "topic:two", 'key:shop/orders-of-shop/"lost"', "applications"]
        for _ in range(6):
            with running.viewer.events(EVENTS, channel=channels, last_event_id=last) as events:
                last = last or begun(events).id
                log.produce("one", [price(1), price(2)])
                log.produce("two", [price(number)._replace(partition=number % 2) for number in range(4)])
                log.produce("orders", [shop.order("lost", timestamp=1)])
                # It is cut at any event: some of this round come in the next one.
                for event in take(events, 4, lambda event: event.kind != "applications"):
                    last = note(event)
        with running.viewer.events(EVENTS, channel=channels, last_event_id=last) as events:
            while sum(map(len, offsets.values())) < 36 or counts[-1:] != [6]:
                note(*take(events, 1, lambda event: event.kind != "applications"))
    assert offsets == {("topic:one", 0): [*range(12)], ("topic:two", 0): [*range(12)], ("topic:two", 1): [*range(12)]}
    assert counts == sorted(set(counts))


def test_a_stream_continues_on_another_server(live_shop: LiveShop, serving: Serving) -> None:
    channels = ["topic:prices", 'key:shop/prices/"tea"', "alerts"]
    with serving(live_shop.data) as server, server.viewer.events(EVENTS, channel=channels) as events:
        begun(events)
        live_shop.produce("prices", price(0))
        last = take(events, 2)[1].id
    live_shop.produce("prices", *(price(number) for number in range(1, 3000)))
    with serving(live_shop.data) as server:
        with server.viewer.events(EVENTS, channel=channels, last_event_id=last) as events:
            assert [event.data["offset"] for event in of_kind(events, "topic", 2999)] == [*range(1, 3000)]
        with server.viewer.events(EVENTS, channel=channels[1], last_event_id=last) as events:
            value = 0
            while value < 2999:  # a commit has the last change of a key, and versions can be repeated
                (event,) = of_kind(events, "key")
                assert event.data["value"] >= value
                value = event.data["value"]


def test_the_id_of_a_stream_with_other_channels_continues_those_that_it_had(running: Running) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("kept")
        log.create_topic("new")
        with running.viewer.events(EVENTS, channel="topic:kept") as events:
            first = begun(events)
        log.produce("kept", [price(5)])
        log.produce("new", [price(5)])
    channels = ["topic:new", "topic:kept", "topic:kept@start"]
    with running.viewer.events(EVENTS, channel=channels, last_event_id=first.id) as events:
        assert {event.data["channel"] for event in take(events, 2)} == {"topic:kept", "topic:kept@start"}


def test_the_header_of_a_browser_that_connects_again_counts_before_the_address(running: Running) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("five")
        log.produce("five", [*map(price, range(5))])
    path = f"{EVENTS}?channel=topic:five&last_event_id=topic:five%3D0:1"
    with running.viewer.events(path) as events:
        assert take(events, 1)[0].data["offset"] == 1
    with running.viewer.events(path, last_event_id="topic:five=0:3") as events:
        assert take(events, 1)[0].data["offset"] == 3


def test_records_that_retention_has_deleted_are_reported_as_missed(running: Running) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("old")
        for number in range(4):
            log.produce("old", [price(number)])
        log.delete_records({("old", 0): 3})
        assert log.starts(["old"])["old"] == [3]
    with running.viewer.events(EVENTS, channel="topic:old", last_event_id="topic:old=0:1") as events:
        first, missed = begun(events), next(events)
        assert (first.id, missed.kind, missed.id) == (None, "missed", None)
        assert missed.data["channels"] == {"topic:old": [{"partition": 0, "from": 1, "to": 3}]}
        assert take(events, 1)[0].data["offset"] == 3


def test_a_topic_that_is_deleted_ends_its_channel_and_no_other(running: Running) -> None:
    with open_log(running.shop.data) as log:
        log.create_topic("a")
        log.create_topic("b")
        with running.viewer.events(EVENTS, channel=["topic:a", "topic:b"]) as events:
            begun(events)
            log.delete_topic("a")
            ended = next(events)
            assert (ended.kind, ended.data["channel"]) == ("ended", "topic:a")
            log.produce("b", [price(1)])
            assert take(events, 1)[0].data["channel"] == "topic:b"
        log.create_topic("a")
        # The id has an offset that the new topic has not reached: the stream tells so.
        with running.viewer.events(EVENTS, channel="topic:a", last_event_id="topic:a=0:7") as events:
            begun(events)
            assert next(events).data["channels"] == {"topic:a": [{"partition": 0, "from": 7, "to": 0}]}
            log.produce("a", [price(1)])
            assert take(events, 1)[0].data["offset"] == 0


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
