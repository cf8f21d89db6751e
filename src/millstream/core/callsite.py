"""Finds the user's line: the nearest frame that is not Millstream's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[1])


def caller() -> str:
    """Returns file and line of the code outside Millstream that is calling into it, as ``app.py:12``."""
    frame = _user_frame()
    return "?" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def warn_user(message: str, category: type[Warning]) -> None:
    """Issues a warning that shows the user's line."""
    import warnings  # noqa: PLC0415  (few programs are warned)

    frame = _user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    # As `warnings.warn` does: the registry of the user's module says what was shown already.
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__", "?")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


def _user_frame() -> FrameType | None:
    """The nearest frame that is not Millstream's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen", "<string>")):
        frame = frame.f_back
    return frame
