"""Finds the line of user code that called Millstream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

_place: ContextVar[str | None] = ContextVar("place", default=None)
"""The place in a text that the user wrote, such as a SQL script, while Millstream adds what it says."""
_PACKAGE = str(Path(__file__).resolve().parents[1])


def caller() -> str:
    """Returns file and line of the user code that called Millstream, as ``app.py:12``."""
    place = _place.get()
    if place is not None:
        return place
    frame = _user_frame()
    return "?" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


@contextmanager
def called_from(place: str) -> Iterator[None]:
    """Names a place that stands for the user code, as ``shop.sql:3``."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def warn_user(message: str, category: type[Warning]) -> None:
    """Issues a warning that points to the line of user code."""
    import warnings  # noqa: PLC0415  (needed only for a warning)

    frame = _user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    # As in `warnings.warn`: the registry of the user's module records which warnings were shown.
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__", "?")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


def _user_frame() -> FrameType | None:
    """Returns the nearest frame outside Millstream."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen", "<string>")):
        frame = frame.f_back
    return frame
