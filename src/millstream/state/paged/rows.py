"""Helpers for rows and changes of paged stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import repeat
from typing import Any

import numpy as np

from millstream.state.codec import Codec
from millstream.state.paged.format import Numbers, PageRow


def times_in(keys: list[bytes], end: int) -> Numbers:
    """Returns the times in changelog keys: eight bytes, at a distance from the end of the key."""
    return np.frombuffer(b"".join([key[-end : 8 - end] for key in keys]), ">i8").astype(np.int64)


def no_times(keys: list[bytes]) -> Numbers:
    """Returns the times of changelog keys that contain none: zeros."""
    return np.zeros(len(keys), np.int64)


def encoded(codec: Codec, keys: list[bytes], rows: Collection[Any]) -> list[PageRow]:
    """Returns the rows of a page from changelog keys and rows of a store."""
    return list(zip(*codec.changes(keys, rows), strict=True)) if rows else []


def present_rows(rows: dict[Any, Any], keys: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the distinct keys that have a row, and their rows."""
    distinct = list(dict.fromkeys(keys))
    values = list(map(dict.get, repeat(rows), distinct))
    if any(row is None for row in values):  # `in` would call the == of the user's own values
        distinct = [key for key, row in zip(distinct, values, strict=True) if row is not None]
        values = [row for row in values if row is not None]
    return distinct, values


def merged(rows: list[PageRow], overlay: dict[Any, Any] | None) -> list[PageRow]:
    """Returns the rows of a page with an overlay of absolute changes applied."""
    if not overlay:
        return rows
    kept = [row for row in rows if row[0] not in overlay]
    kept.extend([record for record in overlay.values() if record[1] is not None])
    return kept
