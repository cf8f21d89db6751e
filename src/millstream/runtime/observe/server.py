"""Starts the server beside applications, as a process of its own: queries take no time from them."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Self

from millstream.config import Config
from millstream.config.secrets import reveal
from millstream.core.data_directory import data_directory
from millstream.errors import ConfigError, SetupError

DEFAULT = "127.0.0.1:8088"

_START_SECONDS = 60.0
_STOP_SECONDS = 5.0

_SERVED = ("bootstrap.servers", "schema.registry.", "security.", "ssl.", "sasl.", "enable.ssl.", "client.")


class Server:
    """The process of a server. It ends with the context, or with this process.

    Args:
        application: The application that it serves; None: all of the data directory.
        config: The configuration of the application.
        address: Host and port; True: the default address.

    Raises:
        ConfigError: The text is not an address of loopback.
    """

    def __init__(self, application: str | None, config: Config, address: str | bool) -> None:
        host, port = parse_address(DEFAULT if address is True else str(address))
        self._options = {
            "host": host,
            "port": port,
            "data": str(data_directory(config["state.dir"])),
            "config": {key: reveal(value) for key, value in config.explicit.items() if key.startswith(_SERVED)},
            "application": application,
        }
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Starts the server, waits until it listens, and prints the address of the console.

        Raises:
            SetupError: It does not start.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "millstream.serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            answer = self._ask(self._process)
        except BaseException:
            self._end(0.0)
            raise
        if "error" in answer:
            self._end(_STOP_SECONDS)
            raise SetupError(answer["error"], hint=answer.get("hint"))
        print(f"millstream: the console is at {answer['address']}", file=sys.stderr, flush=True)  # noqa: T201
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(_STOP_SECONDS)

    def _ask(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Gives the server its options, and returns its answer: its address, or an error."""
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended
            process.stdin.write(json.dumps(self._options) + "\n")
            process.stdin.flush()
        waiting = threading.Timer(_START_SECONDS, process.kill)
        waiting.start()
        try:
            line = process.stdout.readline()
        finally:
            waiting.cancel()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            return {"error": "the server has ended at its start", "hint": "its messages are above"}
        return answer

    def _end(self, seconds: float) -> None:
        """Ends the server: it stops when its stdin is closed, and is killed if it takes longer."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of an address of loopback.

    >>> parse_address("127.0.0.1:8088"), parse_address("8089"), parse_address("[::1]:80")
    (('127.0.0.1', 8088), ('127.0.0.1', 8089), ('::1', 80))

    Raises:
        ConfigError: The text is not one.
    """
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ConfigError(f"serve: {text!r} is not an address", hint=f"write host:port, such as {DEFAULT}")
    if not _is_loopback(host):
        raise ConfigError(
            f"serve: the server beside an application listens on this machine only, not on {host}",
            hint="for other machines: millstream serve, with --tls-certificate and --tls-key",
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
