"""Event streams of a server in the process of the test: alerts, and states that are rare on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.serve.in_process import HOST, InProcess, in_process

from millstream.log import Log, ProducerRecord, open_log
from millstream.serve.live import following


@asynccontextmanager
async def stream(server: InProcess, query: str) -> AsyncIterator[asyncio.Queue[dict[str, str]]]:
    """The events of a stream, as the guard sends them."""
    received: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    is_left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await is_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        for block in message.get("body", b"").decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in fields:
                received.put_nowait(fields)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "GET",
        "path": "/api/v1/events",
        "raw_path": b"/api/v1/events",
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", HOST.encode())],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8088),
    }
    task = asyncio.ensure_future(server.guard(scope, receive, send))
    try:
        yield received
    finally:
        is_left.set()
        await asyncio.wait_for(task, 30)


async def event(received: asyncio.Queue[dict[str, str]]) -> dict[str, str]:
    return await asyncio.wait_for(received.get(), 30)


def test_published_alerts_arrive_once_and_a_stream_continues_after_its_last_one(tmp_path: Path) -> None:
    async def run(server: InProcess) -> None:
        hub = server.web.state.hub
        hub.publish("alerts", {"rule": "lag", "state": "pending"})  # nobody listens
        async with stream(server, "channel=alerts") as received:
            assert (await event(received))["event"] == "subscribed"
            await asyncio.to_thread(hub.publish, "alerts", {"rule": "lag", "state": "firing"})
            first = await event(received)
        assert first["event"] == "alerts"
        assert json.loads(first["data"]) == {"channel": "alerts", "rule": "lag", "state": "firing"}
        hub.publish("alerts", {"rule": "lag", "state": "resolved"})
        async with stream(server, f"channel=alerts&last_event_id={first['id']}") as received:
            assert (await event(received))["event"] == "subscribed"
            assert json.loads((await event(received))["data"])["state"] == "resolved"
        for number in range(3000):
            hub.publish("alerts", {"number": number})
        async with stream(server, f"channel=alerts&last_event_id={first['id']}") as received:
            assert (await event(received))["event"] == "subscribed"
            missed = json.loads((await event(received))["data"])["channels"]["alerts"]
            assert missed == [{"from": 2, "to": 1003}]
            assert json.loads((await event(received))["data"])["number"] == 1000
        async with stream(server, "channel=alerts&last_event_id=alerts%3Dotherrun:1") as received:
            assert (await event(received))["event"] == "subscribed"
            hub.publish("alerts", {"number": 3000})
            assert json.loads((await event(received))["data"])["number"] == 3000
        await hub.close()

    with in_process(tmp_path, is_open=True) as server:
        server.runner.run(run(server))


def test_a_token_of_an_event_stream_is_checked_even_if_there_is_no_log(tmp_path: Path) -> None:
    with in_process(tmp_path / "nothing") as server:
        assert server.request("GET", "/api/v1/events?channel=alerts").status == 401
    with in_process(tmp_path / "nothing", is_open=True) as server:
        assert server.request("GET", "/api/v1/events?channel=topic:orders").status == 503
        answer = server.request("GET", "/api/v1/events?channel=applications&channel=alerts")
        assert answer.status == 200


def test_the_list_of_applications_is_sent_even_if_there_are_none(tmp_path: Path) -> None:
    async def run(server: InProcess) -> None:
        async with stream(server, "channel=applications") as received:
            assert (await event(received))["event"] == "subscribed"
            assert json.loads((await event(received))["data"]) == {"channel": "applications", "applications": []}
        await server.web.state.hub.close()

    with in_process(tmp_path / "nothing", is_open=True) as server:
        server.runner.run(run(server))


def test_a_server_that_is_behind_for_long_skips_to_the_end_and_tells_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_BEHIND_SECONDS", -1.0)
    monkeypatch.setattr(following, "_MOST_RECORDS", 1)

    async def run(server: InProcess, log: Log) -> None:
        async with stream(server, "channel=topic:numbers") as received:
            assert (await event(received))["event"] == "subscribed"
            await asyncio.sleep(0)
            for number in range(20):  # meanwhile, the event loop passes nothing on
                log.produce("numbers", [ProducerRecord(b"k", b"v", number)])
            kinds = [await event(received)]
            while kinds[-1]["event"] != "missed":
                kinds.append(await event(received))
            (missed,) = json.loads(kinds[-1]["data"])["channels"]["topic:numbers"]
            assert missed == {"partition": 0, "from": len(kinds) - 1, "to": 20}
            log.produce("numbers", [ProducerRecord(b"k", b"v", 20)])
            assert json.loads((await event(received))["data"])["offset"] == 20
        await server.web.state.hub.close()

    with open_log(tmp_path) as log, in_process(tmp_path, is_open=True) as server:
        log.create_topic("numbers")
        server.runner.run(run(server, log))
