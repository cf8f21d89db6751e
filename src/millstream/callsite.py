"""Finds the user's line: the nearest frame that is not Millstream's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parent)


def caller() -> str:
    """Returns file and line of the code outside Millstream that is calling into it, as ``app.py:12``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((_PACKAGE, "<frozen", "<string>")):
            return f"{Path(filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"
