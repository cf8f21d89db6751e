"""Starts a task host: ``python -m millstream.runtime.host SOCKET PARENT IDENTITY``."""

from __future__ import annotations

import sys

from millstream.runtime.host.server import serve

if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
