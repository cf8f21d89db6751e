"""Values in PostgreSQL's text format: numbers, bytes, bits, points, arrays and hstore."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

_POINT = re.compile(r"\(([^,()]+),([^,()]+)\)")
_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")(?:, )?', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MONEY = re.compile(r"(-?)\$?([\d,]+(?:\.\d+)?)")
# An item of an array: quoted, or without quotes.
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^",{}\\]|\\.)+)', re.DOTALL)


def boolean(text: str) -> bool:
    """Returns a boolean."""
    if text not in ("t", "f"):
        raise ValueError("it is neither t nor f")
    return text == "t"


def decimal(text: str) -> Decimal:
    """Returns a number exactly.

    Raises:
        ValueError: It is NaN or infinite.
    """
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError("precise numbers have no NaN and no infinity; set decimal.handling.mode to string or double")
    return number


def variable_scale(text: str) -> dict[str, Any]:
    r"""Returns a number as ``io.debezium.data.VariableScaleDecimal``: its scale, and its digits as a number in bytes.

    >>> variable_scale("-12.5")
    {'scale': 1, 'value': b'\x83'}
    """
    sign, digits, exponent = decimal(text).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    if exponent > 0:
        unscaled, exponent = unscaled * 10**exponent, 0
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return {"scale": -exponent, "value": unscaled.to_bytes(size, "big", signed=True)}


def money(text: str) -> Decimal:
    """Returns an amount of money as the locale C shows it.

    >>> money("-$1,234.50")
    Decimal('-1234.50')
    """
    match = _MONEY.fullmatch(text)
    if match is None:
        raise ValueError("it is not an amount of money in the locale C")
    return Decimal(match[1] + match[2].replace(",", ""))


def binary(text: str) -> bytes:
    """Returns the bytes of a ``bytea`` in the format hex."""
    if not text.startswith("\\x"):
        raise ValueError("it is not in the format hex")
    return bytes.fromhex(text[2:])


def bits(text: str) -> bytes:
    r"""Returns bits as bytes, the last bit of the text first, as ``io.debezium.data.Bits`` has them.

    >>> bits("100000001")
    b'\x01\x01'
    """
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")


def point(text: str) -> dict[str, Any]:
    """Returns a point as ``io.debezium.data.geometry.Point``.

    >>> point("(1,-2.5)")["x"], point("(1,-2.5)")["y"]
    (1.0, -2.5)
    """
    match = _POINT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a point")
    x, y = float(match[1]), float(match[2])
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}


def hstore(text: str) -> dict[str, str | None]:
    """Returns the pairs of an ``hstore``.

    >>> hstore('"a"=>"1", "b"=>NULL')
    {'a': '1', 'b': None}
    """
    pairs: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        match = _HSTORE.match(text, at)
        if match is None:
            raise ValueError("it is not an hstore")
        pairs[_unescaped(match[1])] = None if match[2] is None else _unescaped(match[2])
        at = match.end()
    return pairs


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


def array(text: str, depth: int, delimiter: str, item: Callable[[str], Any]) -> list[Any]:
    """Returns the items of an array, as lists in lists if it has several dimensions.

    >>> array("{1,NULL,3}", 1, ",", int), array('{{a,"b,c"},{d,e}}', 2, ",", str)
    ([1, None, 3], [['a', 'b,c'], ['d', 'e']])

    Args:
        text: The array.
        depth: The number of dimensions of the column.
        delimiter: What separates the items: a comma, or a semicolon for boxes.
        item: Converts an item.

    Raises:
        ValueError: The text is not an array, or has another number of dimensions.
    """
    if text.startswith("["):  # bounds that do not begin with 1
        text = text.partition("=")[2]
    if text == "{}":
        return []
    parser = _ArrayParser(text, depth, delimiter, item)
    items = parser.array(1)
    if parser.at != len(text):
        raise ValueError("it is not an array")
    return items


class _ArrayParser:
    """Reads an array from its text, from the position `at`."""

    def __init__(self, text: str, depth: int, delimiter: str, item: Callable[[str], Any]) -> None:
        self.text, self.depth, self.delimiter, self.item = text, depth, delimiter, item
        self.at = 0
        self._item = _ITEM
        if delimiter != ",":
            self._item = re.compile(_ITEM.pattern.replace('",', f'"{delimiter}'), re.DOTALL)

    def array(self, level: int) -> list[Any]:
        items: list[Any] = []
        if not self._take("{"):
            raise ValueError("it is not an array")
        while True:
            if self.text.startswith("{", self.at):
                if level == self.depth:
                    raise ValueError(f"it has more than {self.depth} dimensions, the number that the column declares")
                items.append(self.array(level + 1))
            else:
                items.append(self._single(level))
            if self._take("}"):
                return items
            if not self._take(self.delimiter):
                raise ValueError("it is not an array")

    def _single(self, level: int) -> Any:
        match = self._item.match(self.text, self.at)
        if match is None:
            raise ValueError("it is not an array")
        if level != self.depth:
            raise ValueError(f"it has fewer than {self.depth} dimensions, the number that the column declares")
        self.at = match.end()
        if match[1] is not None:
            return self.item(_unescaped(match[1]))
        return None if match[2] == "NULL" else self.item(_unescaped(match[2]))

    def _take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False
