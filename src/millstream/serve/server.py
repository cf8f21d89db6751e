"""Runs the server: binds its port, prints its address, and serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server as Granian

from millstream.errors import SetupError
from millstream.serve.access.audit import Audit
from millstream.serve.access.authorization import Access
from millstream.serve.access.guard import Guard
from millstream.serve.access.sessions import Sessions
from millstream.serve.access.tokens import Tokens
from millstream.serve.data import ServedData
from millstream.serve.options import ServeOptions
from millstream.serve.web import create_web


class ServerProcess:
    """The server of this process.

    Args:
        options: Its options.
    """

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.port = options.port
        self._stopping: asyncio.Event | None = None

    def run(self, ready: Callable[[str], None]) -> None:
        """Serves until SIGTERM or SIGINT.

        Args:
            ready: Called with the address of the console once the server listens.

        Raises:
            SetupError: The port is in use.
        """
        self.port = _free_port(self.options.host, self.options.port)
        asyncio.run(self._serve(ready))

    def stop(self) -> None:
        """Ends the server. It is called in its event loop."""
        if self._stopping is not None:
            self._stopping.set()

    async def _serve(self, ready: Callable[[str], None]) -> None:
        options = self.options
        data = ServedData(options)
        sessions = Sessions()
        access = Access(Tokens(data.directory), sessions, is_open=options.is_open)
        web = create_web(data, access)
        guard = Guard(web, options.hosts(self.port), options.scheme, Audit(data.directory))
        logging.getLogger("granian").setLevel(logging.ERROR)
        granian = Granian(
            guard,
            address=options.host,
            port=self.port,
            interface=Interfaces.ASGI,
            http=HTTPModes.auto,
            websockets=False,
            log_enabled=False,
            ssl_cert=options.certificate,
            ssl_key=options.key,
        )
        self._stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        serving = asyncio.ensure_future(granian.serve())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await self._wait_until_listening(serving)
            web.state.sql.begin()
            fragment = "" if options.is_open else f"#code={sessions.new_code()}"
            host = f"[{options.host}]" if ":" in options.host else options.host
            ready(f"{options.scheme}://{host}:{self.port}/{fragment}")
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await web.state.sql.close()  # ends the answers of queries
            granian.stop()  # type: ignore[no-untyped-call]
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            data.close()

    async def _wait_until_listening(self, serving: asyncio.Future[None]) -> None:
        while not serving.done():
            try:
                _reader, writer = await asyncio.open_connection(self.options.host, self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


def _free_port(host: str, port: int) -> int:
    """Returns the port, or a free one for 0. The server itself would share a port with another process.

    Raises:
        SetupError: Another process listens on it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SetupError(
                f"the server cannot listen on {host}:{port}: {error.strerror}", hint="choose another port with --port"
            ) from None
        return int(probe.getsockname()[1])


def announce(address: str) -> None:
    """Prints the address of the console."""
    print(f"millstream: the console is at {address}", file=sys.stderr, flush=True)  # noqa: T201
