"""Serves the files of the console, compressed."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

FOLDER = Path(__file__).parent / "console"


class ConsoleFiles(StaticFiles):
    """The application of the web framework that serves the files."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER, html=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""
        # A server with the extension pathsend would send a file as it is.
        extensions = {name: each for name, each in scope.get("extensions", {}).items() if not name.endswith("pathsend")}
        await GZipMiddleware(super().__call__, compresslevel=6)({**scope, "extensions": extensions}, receive, send)
