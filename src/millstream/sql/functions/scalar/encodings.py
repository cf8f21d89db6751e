"""Functions that turn text into bytes and back, and bytes into numbers."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from typing import Any

from millstream.sql.functions.casts import parse_base64
from millstream.sql.functions.catalogue import ScalarFunction, on, scalar

_QUOTED_HEX = re.compile(r"[xX]'(.*)'")
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text) if not re.search(r"\s", text) else binascii.unhexlify(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is not hexadecimal") from None


_TO_BYTES: dict[str, Callable[[str], bytes]] = {
    "hex": _from_hex,
    "utf8": lambda text: text.encode("utf-8", "replace"),
    "ascii": lambda text: text.encode("ascii", "replace"),
    "base64": parse_base64,
}
_FROM_BYTES: dict[str, Callable[[bytes], str]] = {
    "hex": lambda value: value.hex().upper(),
    "utf8": lambda value: value.decode("utf-8", "replace"),
    "ascii": lambda value: value.decode("ascii", "replace"),
    "base64": lambda value: base64.b64encode(value).decode("ascii"),
}


def _from_written_hex(text: str) -> bytes:
    """Reads hexadecimal as ENCODE does: with ``0x`` in front, where a digit may be missing, or as ``X'…'``."""
    if text.startswith("0x"):
        return _from_hex(text[2:].rjust(len(text) - 2 + len(text) % 2, "0"))
    quoted = _QUOTED_HEX.fullmatch(text)
    return _from_hex(text if quoted is None else quoted[1])


def _from_written_base64(text: str) -> bytes:
    """Reads base64 as ENCODE does: both alphabets, up to the padding; other characters are ignored."""
    letters = _NO_BASE64.sub("", text.partition("=")[0].replace("-", "+").replace("_", "/"))
    whole = letters[: len(letters) - 1] if len(letters) % 4 == 1 else letters
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


_LENIENT = {**_TO_BYTES, "hex": _from_written_hex, "base64": _from_written_base64}


def _coding(table: dict[str, Any], name: str) -> Any:
    found = table.get(name.lower())
    if found is None:
        raise ValueError(f"Unknown encoding: {name[:50]!r}. Supported formats are: ascii, utf8, hex, base64")
    return found


def _encode(text: str, source: str, target: str) -> str:
    if source.lower() == target.lower():
        raise ValueError(f"Supported input and output encodings are: ascii, utf8, hex, base64; both are {source!r}")
    shown = _coding(_FROM_BYTES, target)(_coding(_LENIENT, source)(text))
    return str(shown.lower() if target.lower() == "hex" else shown)


def _number(name: str, type_: str, layout: str, example: tuple[str, str]) -> ScalarFunction:
    size = struct.calcsize(f">{layout}")

    def convert(value: bytes, order: str = "BIG_ENDIAN") -> Any:
        if order.upper() not in {"BIG_ENDIAN", "LITTLE_ENDIAN"}:
            raise ValueError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN, not {order[:50]!r}")
        if len(value) != size:
            raise ValueError(f"Number of bytes must be equal to {size}, but found {len(value)}")
        return struct.unpack(f"{'>' if order.upper() == 'BIG_ENDIAN' else '<'}{layout}", value)[0]

    return scalar(
        name,
        "bytes",
        f"Reads the {size} bytes of a {type_}; the order is BIG_ENDIAN unless LITTLE_ENDIAN is given.",
        example,
        on(f"(BYTES) -> {type_}", convert),
        on(f"(BYTES, STRING) -> {type_}", convert),
    )


FUNCTIONS = (
    scalar(
        "ENCODE",
        "bytes",
        "Writes a text of one encoding in another one: hex, utf8, ascii or base64.",
        ("ENCODE('Hi', 'utf8', 'hex')", "4869"),
        on("(STRING, STRING, STRING) -> STRING", _encode),
    ),
    scalar(
        "TO_BYTES",
        "bytes",
        "Returns the bytes of a text in an encoding: hex, utf8, ascii or base64.",
        ("FROM_BYTES(TO_BYTES('Hi', 'utf8'), 'base64')", "SGk="),
        on("(STRING, STRING) -> BYTES", lambda text, name: _coding(_TO_BYTES, name)(text)),
    ),
    scalar(
        "FROM_BYTES",
        "bytes",
        "Returns bytes as text in an encoding: hex, utf8, ascii or base64.",
        ("FROM_BYTES(TO_BYTES('Jn', 'utf8'), 'hex')", "4A6E"),
        on("(BYTES, STRING) -> STRING", lambda value, name: _coding(_FROM_BYTES, name)(value)),
    ),
    _number("INT_FROM_BYTES", "INT", "i", ("INT_FROM_BYTES(TO_BYTES('00000102', 'hex'))", "258")),
    _number("BIGINT_FROM_BYTES", "BIGINT", "q", ("BIGINT_FROM_BYTES(TO_BYTES('0000000000000102', 'hex'))", "258")),
    _number("DOUBLE_FROM_BYTES", "DOUBLE", "d", ("DOUBLE_FROM_BYTES(TO_BYTES('3FF8000000000000', 'hex'))", "1.5")),
)
