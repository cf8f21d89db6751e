"""The server's side of the SQL process: starts it, starts it again when it has ended, and calls it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from millstream.config.secrets import reveal
from millstream.errors import BrokerError, LogError
from millstream.serve.data import ServedData
from millstream.serve.ksql.codes import NAME, NOT_FOUND, TOO_MANY, UNAVAILABLE
from millstream.serve.ksql.frames import packed, receive_async
from millstream.sql.live.journal import journal_topic

_MOST_CALLS = 64
"""The largest number of calls besides those of queries that go on: each has a thread."""

_START_SECONDS = 8.0
_WAIT_SECONDS = 2.0
_END_SECONDS = 15.0
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 30.0
_STEADY_SECONDS = 60.0


class CallFailed(Exception):  # noqa: N818  (it is an answer)
    """A call was refused.

    Attributes:
        status: The status of HTTP.
        body: The error as ksqlDB's API has it.
        changes: The statements of the request that would change something.
    """

    def __init__(self, status: int, body: str, changes: Sequence[str] = ()) -> None:
        super().__init__(body)
        self.status = status
        self.body = body
        self.changes = changes

    @classmethod
    def generic(cls, error_code: int, message: str) -> CallFailed:
        """Returns an error that is not that of a statement."""
        body = {"@type": "generic_error", "error_code": error_code, "message": message}
        return cls(error_code // 100, json.dumps(body))

    @property
    def message(self) -> str:
        """What happened."""
        return str(json.loads(self.body)["message"])


class SqlEngine:
    """Runs SQL for the server. All of it runs in the event loop of the server.

    The process is started with the first call, or by `begin` if statements of an earlier process are recorded.

    Args:
        data: What the server serves.
    """

    def __init__(self, data: ServedData) -> None:
        self._data = data
        self._beginning: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._calls: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._known = asyncio.Event()
        self._ready = asyncio.Event()
        self._reason = "SQL is being started"

    # ----- the process -----------------------------------------------------------------------------------------------

    @property
    def is_off(self) -> bool:
        """Whether the server has no SQL."""
        return not self._data.options.sql or self._data.options.application is not None

    def begin(self) -> None:
        """Starts the process if there are queries that continue. It does not wait for the log."""
        if not self.is_off:
            self._beginning = asyncio.ensure_future(self._begin())

    async def _begin(self) -> None:
        if await asyncio.to_thread(self._has_statements):
            self._keep()

    def _has_statements(self) -> bool:
        try:
            return any(topic.name == journal_topic(NAME) for topic in self._data.log.topics())
        except BrokerError:
            return True  # there may be; the process waits for the broker
        except LogError:
            return False  # no log has been created yet

    async def close(self) -> None:
        """Ends the process."""
        for task in (self._beginning, self._running):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._beginning = self._running = None
        self._lost("the server ends")
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        await self._reap()

    async def _reap(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                await asyncio.to_thread(process.wait, _END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)

    def _keep(self) -> None:
        if self._running is None:
            self._running = asyncio.ensure_future(self._keep_running())

    async def _keep_running(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            await self._run_once()
            pause = _FIRST_PAUSE if time.monotonic() - began > _STEADY_SECONDS else min(2 * pause, _LAST_PAUSE)
            await asyncio.sleep(pause)

    async def _run_once(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "millstream.serve.ksql.process"],
                stdin=theirs.fileno(),  # the connection
                stdout=2,  # its output is a part of the server's log
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        try:
            config = {key: reveal(value) for key, value in self._data.config.explicit.items()}
            config["state.dir"] = str(self._data.directory.absolute())
            self._writer.write(packed({"config": config}))
            while (message := await receive_async(reader)) is not None:
                self._take(message)
        finally:
            self._lost("the SQL process has ended; it is started again")
            self._writer.close()
        await self._reap()

    def _take(self, message: dict[str, Any]) -> None:
        if "state" in message:
            self._reason = message["reason"] or ""
            (self._ready.set if message["state"] == "ready" else self._ready.clear)()
            self._known.set()
        elif (call := self._calls.get(message["id"])) is not None:
            call.put_nowait(message)

    def _lost(self, reason: str) -> None:
        self._ready.clear()
        self._known.clear()
        self._reason = reason
        for call in self._calls.values():
            call.put_nowait({"lost": True})

    # ----- calls -----------------------------------------------------------------------------------------------------

    async def call(self, method: str, **arguments: Any) -> Any:
        """Calls a method that has one result, and returns it.

        Raises:
            CallFailed: It was refused, or there is no SQL now.
        """
        return (await self.change(method, **arguments))[0]

    async def change(self, method: str, **arguments: Any) -> tuple[Any, list[str]]:
        """Calls a method that may change something; returns its result, and the statements that change something.

        Raises:
            CallFailed: It was refused, or there is no SQL now.
        """
        async with contextlib.aclosing(self._messages(method, arguments)) as messages:
            async for message in messages:
                return message["result"], message["changes"]
        raise AssertionError("a call has a result")

    async def items(self, method: str, **arguments: Any) -> AsyncGenerator[tuple[list[str], bool], None]:
        """Calls a method that has items, and yields them as they come. The process waits until they are taken.

        At the end, it yields the last item, if there is one, and True.

        Raises:
            CallFailed: It was refused, or there is no SQL now.
        """
        async with contextlib.aclosing(self._messages(method, arguments)) as messages:
            async for message in messages:
                if "items" in message:
                    yield message["items"], False
                else:
                    yield [message["result"]] if message["result"] is not None else [], True

    async def _messages(self, method: str, arguments: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        await self._wait_until_ready()
        if len(self._calls) >= self._data.options.most_streams + _MOST_CALLS:
            raise CallFailed.generic(TOO_MANY, "too many statements are in progress: wait a moment")
        id_ = next(self._numbers)
        queue = self._calls[id_] = asyncio.Queue()
        is_over = False
        try:
            self._send(id=id_, method=method, arguments=arguments)
            while not is_over:
                message = await queue.get()
                is_over = "items" not in message
                if "lost" in message:
                    raise CallFailed.generic(UNAVAILABLE, self._reason)
                if "error" in message:
                    if message["error"] is None:
                        raise RuntimeError("the SQL process has failed: its traceback is above")
                    raise CallFailed(**message["error"], changes=message["changes"])
                yield message
                if not is_over:
                    self._send(id=id_, more=True)
        finally:
            del self._calls[id_]
            if not is_over:
                self._send(id=id_, cancel=True)

    def _send(self, **message: Any) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(packed(message))

    async def _wait_until_ready(self) -> None:
        if self.is_off:
            raise CallFailed.generic(
                NOT_FOUND,
                "this server runs no SQL, because it serves one application: millstream serve serves a data directory",
            )
        self._keep()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                await self._known.wait()
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self._ready.wait()
        if not self._ready.is_set():
            raise CallFailed.generic(UNAVAILABLE, self._reason)
