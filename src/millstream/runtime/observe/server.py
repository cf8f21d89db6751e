"""Starts the server beside applications, as a process of its own: queries take no time from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from millstream.config import Config
from millstream.config.secrets import reveal
from millstream.core.data_directory import data_directory
from millstream.errors import ConfigError, SetupError

DEFAULT = "127.0.0.1:8088"

_SERVED = ("bootstrap.servers", "schema.registry.", "security.", "ssl.", "sasl.", "enable.ssl.", "client.")


class Server:
    """The process of a server. It ends with the context, or with this process.

    Args:
        application: The application that it serves; None: all of the data directory.
        config: The configuration of the application.
        address: Host and port; True: the default address.

    Raises:
        ConfigError: The text is not an address.
    """

    def __init__(self, application: str | None, config: Config, address: str | bool) -> None:
        host, _, port = (DEFAULT if address is True else str(address)).strip().rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise ConfigError(f"serve: {address!r} is not an address", hint=f"write host:port, such as {DEFAULT}")
        self._options = {
            "host": host.removeprefix("[").removesuffix("]") or "127.0.0.1",
            "port": int(port),
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._options) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the server has ended at its start"}
        if "error" in answer:
            self.__exit__(None, None, None)
            raise SetupError(answer["error"], hint=answer.get("hint"))
        print(f"millstream: the console is at {answer['address']}", file=sys.stderr, flush=True)  # noqa: T201
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
