"""Sends requests at a constant rate, in a process of its own, and measures the time from when each was due.

It prints the latencies in milliseconds as JSON. A request that is late because the server is slow counts from the time
at which it should have been sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from pathlib import Path


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answered: asyncio.Future[int] | None = None
        self._data = bytearray()
        self._length = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._length < 0:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._data[:end]).lower()
            at = head.find(b"content-length: ")
            line = head[at + 16 :].split(b"\r\n", 1)[0]
            self._length = end + 4 + int(line)
        if len(self._data) >= self._length and self.answered is not None:
            status = int(self._data[9:12])
            self._data.clear()
            self._length = -1
            self.answered.set_result(status)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_exception(ConnectionError("the server has closed the connection"))

    async def send(self, request: bytes) -> int:
        assert self.transport is not None
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answered


async def load(host: str, port: int, paths: list[str], token: str, rate: float, seconds: float, width: int) -> dict:
    """Sends requests for random paths; returns latencies and the number of answers other than 200."""
    loop = asyncio.get_running_loop()
    head = f" HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    requests = [f"GET {path}{head}".encode() for path in paths]
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(width):
        _transport, connection = await loop.create_connection(Connection, host, port)
        idle.put_nowait(connection)
    latencies: list[float] = []
    failed = 0

    async def one(due: float) -> None:
        nonlocal failed
        connection = await idle.get()
        try:
            status = await connection.send(random.choice(requests))
        finally:
            idle.put_nowait(connection)
        latencies.append((time.perf_counter() - due) * 1000)
        failed += status != 200

    begin = time.perf_counter()
    tasks = set()
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.ensure_future(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return {"latencies": latencies, "failed": failed, "seconds": time.perf_counter() - begin}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--paths", required=True, help="a file with a path in each line")
    parser.add_argument("--token", required=True)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    with Path(options.paths).open(encoding="utf-8") as file:
        paths = file.read().split("\n")
    given = (options.host, options.port, paths, options.token, options.rate, options.seconds, options.connections)
    print(json.dumps(asyncio.run(load(*given))))


if __name__ == "__main__":
    main()
