"""Kafka Streams' layouts of windowed keys, on bytes. All numbers are big-endian and signed.

=====================  ========================================
windowed key           key, start (8 bytes)
session key            key, end (8 bytes), start (8 bytes)
key in a window store  key, start (8 bytes), sequence (4 bytes)
=====================  ========================================
"""

from __future__ import annotations

from struct import Struct, error as StructError  # noqa: N812

from millstream.errors import SerializationError
from millstream.serde.error_messages import shorten, wrong_length

_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")
_LONG_AND_INT = Struct(">qi")


def window_key(key: bytes, start: int) -> bytes:
    r"""Returns the bytes of a windowed key.

    >>> window_key(b"k", 1)
    b'k\x00\x00\x00\x00\x00\x00\x00\x01'
    """
    try:
        return key + _LONG.pack(start)
    except StructError as error:
        raise _not_in_range("window key", start) from error


def split_window_key(data: bytes) -> tuple[bytes, int]:
    """Returns the key and the start of a windowed key.

    >>> split_window_key(window_key(b"k", 1))
    (b'k', 1)
    """
    try:
        start: int = _LONG.unpack(data[-8:])[0]
    except StructError as error:
        raise wrong_length("window key", data, 8, at_least=True) from error
    return data[:-8], start


def session_key(key: bytes, start: int, end: int) -> bytes:
    r"""Returns the bytes of a session key: the end comes before the start.

    >>> session_key(b"k", 1, 2)
    b'k\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01'
    """
    try:
        return key + _TWO_LONGS.pack(end, start)
    except StructError as error:
        raise _not_in_range("session key", start, end) from error


def split_session_key(data: bytes) -> tuple[bytes, int, int]:
    """Returns the key, the start and the end of a session key.

    >>> split_session_key(session_key(b"k", 1, 2))
    (b'k', 1, 2)
    """
    try:
        end, start = _TWO_LONGS.unpack(data[-16:])
    except StructError as error:
        raise wrong_length("session key", data, 16, at_least=True) from error
    return data[:-16], start, end


def store_window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    r"""Returns the key of a row in a window store.

    Args:
        key: The bytes of the key.
        start: The start of the window.
        sequence: The sequence number among rows of the same key and start, in stores that retain duplicates; else 0.

    >>> store_window_key(b"k", 1, 2)
    b'k\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02'
    """
    try:
        return key + _LONG_AND_INT.pack(start, sequence)
    except StructError as error:
        raise _not_in_range("store window key", start, sequence) from error


def split_store_window_key(data: bytes) -> tuple[bytes, int, int]:
    """Returns the key, the start and the sequence number of a window store's key.

    >>> split_store_window_key(store_window_key(b"k", 1, 2))
    (b'k', 1, 2)
    """
    try:
        start, sequence = _LONG_AND_INT.unpack(data[-12:])
    except StructError as error:
        raise wrong_length("store window key", data, 12, at_least=True) from error
    return data[:-12], start, sequence


def _not_in_range(layout: str, *numbers: int) -> SerializationError:
    shown = ", ".join(map(shorten, numbers))
    return SerializationError(f"{layout}: cannot write {shown}: not an integer of the size of its field")
