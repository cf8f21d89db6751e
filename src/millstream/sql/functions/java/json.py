"""JSON text as Jackson reads and writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NoReturn

ABSENT: Final = object()
"""The value of an empty text."""


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_json(text: str) -> Any:
    """Reads JSON; fractions become Decimal. An empty text is `ABSENT`.

    Raises:
        ValueError: It is not JSON.
    """
    if not text.strip():
        return ABSENT
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_constant)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"Invalid JSON format: {error}") from None


def json_text(node: Any) -> str:
    """Writes JSON without spaces.

    >>> json_text({"a": [1, Decimal("1.50"), None, "x"]})
    '{"a":[1,1.50,null,"x"]}'
    """
    return "".join(_pieces(node))


def _pieces(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield "{"
        for index, (name, value) in enumerate(node.items()):
            yield f"{',' if index else ''}{quoted(name)}:"
            yield from _pieces(value)
        yield "}"
    elif isinstance(node, list):
        yield "["
        for index, value in enumerate(node):
            if index:
                yield ","
            yield from _pieces(value)
        yield "]"
    else:
        yield _scalar(node)


def _scalar(node: Any) -> str:
    if node is None:
        return "null"
    if isinstance(node, bool):
        return "true" if node else "false"
    return quoted(node) if isinstance(node, str) else str(node)


_CONTROL = re.compile(r"\\u00[01][0-9a-f]")


def quoted(text: str) -> str:
    """Writes a JSON string; Jackson writes escapes of control characters in upper case."""
    written = json.dumps(text, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\u{match[0][2:].upper()}", written) if "\\u" in written else written


# ----- paths ---------------------------------------------------------------------------------------------------------

_STEP = re.compile(r"""\.(?P<name>[^.\[\]"]+)|\[(?:(?P<index>[^\]"']+)|"(?P<quoted>(?:[^"\\]|\\.)*)")\]""")


def parse_path(path: str) -> list[str]:
    """Splits ``$.a.b[0]["x"]`` into its steps.

    >>> parse_path('$.a.b[0]["x.y"]')
    ['a', 'b', '0', 'x.y']

    Raises:
        ValueError: It is no path.
    """
    if not path.startswith("$"):
        raise ValueError(f"Invalid JSON path: {path[:100]!r} must start with $")
    steps, position = [], 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"Invalid JSON path: {path[:100]!r}, at character {position + 1}")
        name, index, quoted_name = match.group("name", "index", "quoted")
        steps.append(name if name is not None else index.strip() if index is not None else _unescaped(quoted_name))
        position = match.end()
    return steps


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
