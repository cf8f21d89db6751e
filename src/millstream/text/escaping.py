"""Makes text from records, exceptions and names safe to print: escaped, indented and shortened.

Terminals interpret control characters, a forged line looks like a message of Millstream, and bidirectional marks
reorder text. All text from outside Millstream passes through one of these functions before it is printed.
"""

from __future__ import annotations

from typing import Any

MESSAGE = 4_000
"""The longest message that is printed, in characters."""

TRACE = 20_000
"""The longest stack trace that is printed, in characters."""

_INDENT = "    "


def printable(text: str) -> str:
    r"""Returns text on one line, with every unprintable character escaped.

    These are control characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, zero-width and other
    format characters, lone surrogates, and spaces other than the usual one.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shorten(text: str, most: int = MESSAGE) -> str:
    """Returns text of about ``most`` characters, omitting the middle of a longer text.

    >>> shorten("a" * 50 + "b" * 50, 20)
    'aaaaaaaaaaaaaaa … (80 characters left out) … bbbbb'
    """
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]} … ({len(text) - most} characters left out) … {text[-tail:]}"


def readable(text: str, most: int = MESSAGE) -> str:
    r"""Returns a message escaped and shortened. Only its first line begins at the margin.

    >>> print(readable("no such key\nerror: all is lost\x07"))
    no such key
        error: all is lost\x07
    """
    if len(text) <= most and text.isprintable():
        return text
    first, *rest = _lines(shorten(text, most))
    if not all(line.startswith(_INDENT) for line in rest if line):  # else the message was processed before
        rest = [_INDENT + line if line else line for line in rest]
    return "\n".join([first, *rest])


def indented(text: str, most: int = TRACE) -> str:
    r"""Returns a text of several lines, such as a stack trace, escaped, shortened and indented.

    >>> print(indented("Traceback:\n  File 'x'\x1b\n"))
        Traceback:
          File 'x'\x1b
    """
    return "\n".join(_INDENT + line for line in _lines(shorten(text.rstrip("\n"), most)))


def _lines(text: str) -> list[str]:
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [line if line.isprintable() else "\t".join(map(printable, line.split("\t"))) for line in lines]


def error_text(error: BaseException) -> str:
    """Returns the class and the text of an exception, for a message.

    >>> error_text(KeyError("id"))
    "KeyError: 'id'"
    """
    return f"{type(error).__name__}: {readable(plain_text(error))}"


def trace_text(error: BaseException) -> str:
    """Returns the stack trace of an exception, escaped and indented."""
    import traceback  # noqa: PLC0415  (needed only after a failure)

    return indented("".join(traceback.format_exception(error)))


def plain_text(error: BaseException) -> str:
    """Returns the text of an exception without escaping, even if its ``__str__`` raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a failing __str__ must not hide the exception)
        return "(its text cannot be read)"


def json_text(data: Any) -> str:
    r"""Returns data as one line of JSON with unprintable characters escaped as ``\uXXXX``.

    A JSON parser restores the original text.

    >>> print(json_text({"é": "\x9b31m\u2028"}))
    {"é": "\u009b31m\u2028"}

    Raises:
        ValueError: The data contains NaN or an infinity, which JSON lacks.
    """
    import json  # noqa: PLC0415  (`import millstream` does not need it)

    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
