"""The process of a server beside an application. It gets its options on stdin, and ends when stdin is closed."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading

from millstream.errors import MillstreamError, SetupError
from millstream.serve.options import ServeOptions

_EVERY = 1.0


def main() -> int:
    """Serves until the process that started it has ended."""
    parent = os.getppid()
    options = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the application, which ends this process
    try:
        try:
            from millstream.serve.server import ServerProcess  # noqa: PLC0415  (its libraries may not be installed)
        except ImportError as error:
            if (error.name or "").partition(".")[0] == "millstream":
                raise
            hint = 'pip install "millstream[serve]"'
            raise SetupError(f"the server requires the package {error.name}", hint=hint) from None
        process = ServerProcess(ServeOptions(**options))
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        process.run(_ready)
    except MillstreamError as error:
        _tell(error=error.message, hint=error.hint)
        return 1
    return 0


def _end_with(parent: int) -> None:
    """Ends this process when its stdin is closed. A forked process of a killed parent may keep it open for longer."""
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], _EVERY)
        if ready and not sys.stdin.read(1):
            break
    os.kill(os.getpid(), signal.SIGTERM)


def _ready(address: str) -> None:
    _tell(address=address)
    os.dup2(2, 1)  # nobody reads stdout any more


def _tell(**facts: str | None) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of granian may still close connections: the end of the interpreter would abort the process, or never come.
    os._exit(code)
