"""The messages of joins by foreign key, and the rows of their subscriptions.

Each field is its size, 4 bytes, and its bytes; a null has size -1. The layout is that of `millstream.serde.tuple_of`,
written out because each left row costs three of them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

_SIZE = Struct(">i")
_TIMESTAMP = Struct(">iq")
_pack, _unpack = _SIZE.pack, _SIZE.unpack_from
_NULL = _pack(-1)

UNSUBSCRIBE: Final = b"forget"
"""Unsubscribe; no answer."""
UNSUBSCRIBE_AND_ANSWER: Final = b"forget+answer"
"""Unsubscribe, and answer with null, which deletes the result."""
ANSWER: Final = b"answer"
"""Subscribe, and answer with the row, or with null if there is none."""
ANSWER_IF_PRESENT: Final = b"answer-if-there"
"""Subscribe, and answer only if there is a row."""

_INSTRUCTIONS = {
    instruction: _pack(len(instruction)) + instruction
    for instruction in (UNSUBSCRIBE, UNSUBSCRIBE_AND_ANSWER, ANSWER, ANSWER_IF_PRESENT)
}


def pack_subscription(instruction: bytes, key: bytes, digest: bytes) -> bytes:
    """Packs a subscription.

    Args:
        instruction: One of the instructions above.
        key: The key of the left row.
        digest: The digest of its value.

    >>> unpack_subscription(pack_subscription(ANSWER, b"key", b"digest"))
    (b'answer', b'key', b'digest')
    """
    return b"".join((_INSTRUCTIONS[instruction], _pack(len(key)), key, _pack(len(digest)), digest))


def unpack_subscription(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Unpacks instruction, key and digest of a subscription."""
    key_at = 4 + _unpack(data)[0]
    digest_at = key_at + 4 + _unpack(data, key_at)[0]
    return data[4:key_at], data[key_at + 4 : digest_at], data[digest_at + 4 :]


def pack_row(digest: bytes, timestamp: int) -> bytes:
    """Packs the stored row of a subscription.

    >>> digest_of_row(pack_row(b"digest", 5))
    b'digest'
    """
    return b"".join((_pack(len(digest)), digest, _TIMESTAMP.pack(8, timestamp)))


def digest_of_row(data: bytes) -> bytes:
    """The digest in the stored row of a subscription."""
    return data[4 : 4 + _unpack(data)[0]]


def pack_answer(digest: bytes, value: bytes | None) -> bytes:
    """Packs an answer.

    Args:
        digest: The digest of the left value that subscribed.
        value: The right value.

    >>> unpack_answer(pack_answer(b"digest", b"value")), unpack_answer(pack_answer(b"", None))
    ((b'digest', b'value'), (b'', None))
    """
    if value is None:
        return b"".join((_pack(len(digest)), digest, _NULL))
    return b"".join((_pack(len(digest)), digest, _pack(len(value)), value))


def unpack_answer(data: bytes) -> tuple[bytes, bytes | None]:
    """Unpacks digest and right value of an answer."""
    value_at = 4 + _unpack(data)[0]
    return data[4:value_at], None if _unpack(data, value_at)[0] < 0 else data[value_at + 4 :]
