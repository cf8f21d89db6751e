"""The process of a server beside an application. It gets its options on stdin, and ends when stdin is closed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from millstream.errors import MillstreamError, SetupError
from millstream.serve.options import ServeOptions


def main() -> int:
    """Serves until the process that started it has ended."""
    options = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the application, which ends this process
    try:
        try:
            from millstream.serve.server import ServerProcess  # noqa: PLC0415  (its libraries may not be installed)
        except ImportError:
            hint = 'pip install "millstream[serve]"'
            raise SetupError("the server requires the packages fastapi and granian", hint=hint) from None
        process = ServerProcess(ServeOptions(**options))
        threading.Thread(target=_end_with_parent, daemon=True).start()
        process.run(lambda address: _tell(address=address))
    except MillstreamError as error:
        _tell(error=error.message, hint=error.hint)
        return 1
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _tell(**facts: str | None) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
