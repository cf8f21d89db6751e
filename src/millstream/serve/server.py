"""Runs the server: binds its port, prints its address, and serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server as Granian

from millstream.errors import ConfigError, SetupError
from millstream.serve.access.audit import Audit
from millstream.serve.access.authorization import Access
from millstream.serve.access.guard import Guard
from millstream.serve.access.sessions import Sessions
from millstream.serve.access.tokens import Tokens
from millstream.serve.data import ServedData
from millstream.serve.options import ServeOptions
from millstream.serve.services import Services
from millstream.serve.web import create_web

_STOP_SECONDS = 2.0
"""How long open connections may delay the end of the server."""

_M_ARENA_MAX = -8
"""A parameter of glibc's mallopt: the largest number of heaps."""

_MOST_FILES = 8192
_OTHER_FILES = 256
"""File descriptors that are left for the log, the views, and connections to brokers."""

_HTTP1 = HTTP1Settings(header_read_timeout=10_000, max_buffer_size=64 * 1024)
_HTTP2 = HTTP2Settings(max_headers_size=64 * 1024, keep_alive_interval=30_000)


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
            ConfigError: The host is unknown, or the certificate cannot be used.
        """
        _limit_heaps()
        if self.options.certificate is not None and self.options.key is not None:
            _check_certificate(self.options.certificate, self.options.key)
        with _reserved(self.options.host, self.options.port) as (address, port):
            self.port = port
            asyncio.run(self._serve(address, ready))

    def stop(self) -> None:
        """Ends the server. It is called in its event loop."""
        if self._stopping is not None:
            self._stopping.set()

    async def _serve(self, address: str, ready: Callable[[str], None]) -> None:
        options = self.options
        data = ServedData(options)
        sessions = Sessions()
        access = Access(Tokens(data.directory), sessions, is_open=options.is_open)
        services = Services(data)
        web = create_web(services, access)
        guard = Guard(web, options.hosts(self.port), options.origins(self.port), Audit(data.directory))
        logging.getLogger("granian").setLevel(logging.ERROR)
        granian = Granian(
            guard,
            address=address,
            port=self.port,
            interface=Interfaces.ASGI,
            http=HTTPModes.auto,
            http1_settings=_HTTP1,
            http2_settings=_HTTP2,
            backlog=1024,
            backpressure=_most_connections(),
            websockets=False,
            log_enabled=False,
            ssl_cert=options.certificate,
            ssl_key=options.key,
        )
        self._stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        _on_signals(loop, self._stopping.set)
        serving = asyncio.ensure_future(granian.serve())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await self._wait_until_listening(serving, address)
            if not serving.done():
                services.begin()
                fragment = "" if options.is_open else f"#code={sessions.new_code()}"
                ready(f"{options.address(self.port)}/{fragment}")
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                error = serving.exception()
                raise SetupError(f"the server has ended: {error or 'its connections failed'}") from error
        finally:
            stopping.cancel()
            await services.end_streams()  # the server waits for open connections
            granian.stop()  # type: ignore[no-untyped-call]
            # Clients may keep connections open for as long as they like.
            await asyncio.wait({serving}, timeout=_STOP_SECONDS)
            if not serving.done():
                loop.set_exception_handler(lambda _loop, _context: None)  # granian sets a future that is cancelled then
            services.close()

    async def _wait_until_listening(self, serving: asyncio.Future[None], address: str) -> None:
        while not serving.done():
            try:
                _reader, writer = await asyncio.open_connection(address, self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


def _on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Has SIGTERM and SIGINT call a function in the event loop.

    The loop's own handlers lose a signal that comes while its wake-up pipe is full, because a thousand connections
    end, for example. Python's handlers run in any case, but only once the main thread does something: a signal that
    another thread receives does not wake it. So both are installed, and the second replaces only the function of the
    first.
    """

    def handle(_number: int, _frame: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)  # wakes the loop
        signal.signal(number, handle)


def _limit_heaps() -> None:
    """Has all threads share two heaps of the C library, if it is glibc.

    By default each thread may have one, and each keeps the memory of the largest answers that its thread has made.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _most_connections() -> int:
    """Returns the number of connections that are open at once; further ones wait.

    Each connection takes a file descriptor, of which a process may have 1,024 unless it asks for more. Connections
    without a request are closed after a while, so that many of them cannot keep others waiting for long.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return max(128, (most if soft == resource.RLIM_INFINITY else soft) - _OTHER_FILES)


@contextlib.contextmanager
def _reserved(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Resolves a host, and reserves the port, or a free one for 0.

    granian shares its port with other processes that ask for it. The socket of this reservation is bound without
    sharing, so that of two servers the later one gets an error, and shares only afterwards, with granian.

    Raises:
        ConfigError: The host is unknown.
        SetupError: Another process listens on the port.
    """
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise ConfigError(
            f"the server cannot listen on {host}: {error.strerror}", hint="give --host an address"
        ) from None
    with socket.socket(family, socket.SOCK_STREAM) as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reservation.bind(place)
        except OSError as error:
            hint = "choose another port, or another address"
            raise SetupError(f"the server cannot listen on {host}:{port}: {error.strerror}", hint=hint) from None
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield str(place[0]), int(reservation.getsockname()[1])


def _check_certificate(certificate: Path, key: Path) -> None:
    """Checks that the certificate and its key can be used.

    Raises:
        ConfigError: They cannot.
    """
    for file in (certificate, key):
        try:
            file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    try:
        # A password is not asked for on the terminal: granian could not use the key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        hint = "both are files in PEM, and the key has no password"
        raise ConfigError(f"{certificate} and {key} cannot be used for TLS: {error}", hint=hint) from None


def announce(address: str) -> None:
    """Prints the address of the console."""
    print(f"millstream: the console is at {address}", file=sys.stderr, flush=True)  # noqa: T201
