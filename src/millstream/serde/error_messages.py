"""The messages of serde errors. Payloads may be large or private: a message shows only the beginning of one."""

from __future__ import annotations

import reprlib

from millstream.errors import DeserializationError, SerializationError

SHOWN = 60
"""The number of characters of a value that a message shows."""

_OTHER_SERDE = "was the topic written with another serde?"

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = SHOWN


def shorten(value: object) -> str:
    """Returns the beginning of a value's repr, about 60 characters of it.

    >>> shorten("short")
    "'short'"
    >>> len(shorten("x" * 1_000_000))
    60
    """
    cut = False
    if type(value) in {str, bytes, bytearray}:
        assert isinstance(value, (str, bytes, bytearray))
        text, cut = repr(value[:SHOWN]), len(value) > SHOWN
    else:
        try:
            text = _repr.repr(value)
        except ValueError:  # Python does not print integers of more than 4300 digits
            text = f"<{type(value).__name__} too long to print>"
    return text[: SHOWN - 1] + "…" if cut or len(text) > SHOWN else text


def cannot_write(
    serde: str, value: object, reason: str | None = None, *, hint: str | None = None
) -> SerializationError:
    """Returns the error for a value that a serde does not support.

    >>> print(cannot_write("long", "x"))
    long serde: cannot write 'x' (str)
      hint: give the operator a serde for this type, e.g. value=str
    """
    kind = type(value).__name__
    if kind in {"coroutine", "async_generator"}:
        hint = "the function that returned it is asynchronous, and the engine does not await results: write a plain def"
    message = f"{serde} serde: cannot write {shorten(value)} ({kind})"
    return SerializationError(
        message if reason is None else f"{message}: {reason}",
        hint=hint or f"give the operator a serde for this type, e.g. value={kind}",
    )


def cannot_read(serde: str, data: object, reason: str, *, hint: str = _OTHER_SERDE) -> DeserializationError:
    """Returns the error for bytes that are not in the format of a serde.

    >>> print(cannot_read("boolean", b"?", "expected 0x00 or 0x01"))
    boolean serde: cannot read b'?': expected 0x00 or 0x01
      hint: was the topic written with another serde?
    """
    return DeserializationError(f"{serde} serde: cannot read {shorten(data)}: {reason}", hint=hint)


def wrong_length(serde: str, data: object, expected: int, *, at_least: bool = False) -> DeserializationError:
    """Returns the error for a payload of the wrong length.

    >>> print(wrong_length("long", b"abc", 8).message)
    long serde: cannot read b'abc': expected 8 bytes, found 3
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        return cannot_read(serde, data, f"expected bytes, found {type(data).__name__}")
    bound = "at least " if at_least else ""
    unit = "byte" if expected == 1 else "bytes"
    return cannot_read(serde, bytes(data), f"expected {bound}{expected} {unit}, found {len(data)}")
