"""The SQL types of fields, literals and results.

Every type includes null. The Python values of each type:

===========  =====================================================================================
BOOLEAN      bool
INT, BIGINT  int (arithmetic never wraps; a cast to the type checks its 32 or 64 bits)
DOUBLE       float
DECIMAL      decimal.Decimal
STRING       str
BYTES        bytes
DATE, TIME   datetime.date, datetime.time
TIMESTAMP    int, the milliseconds since 1970 in UTC
ARRAY        list
MAP          dict
STRUCT       dict, or an object with those attributes
ANY          any value: the type is not known and not checked
NULL         the type of the literal NULL, which fits every other type
===========  =====================================================================================

In a record, a ``datetime`` is a TIMESTAMP (without a zone it is UTC), an ``Enum`` is its value and a ``UUID`` its text:
functions, comparisons and casts convert them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.core.frozen import Frozen
from millstream.errors import ExpressionError, suggestion


class DataType(Frozen):
    """A type. ``name`` is ``ARRAY``, ``str()`` the whole text ``ARRAY<BIGINT>``. Types are equal if their texts are."""

    @property
    def name(self) -> str:
        """The name without parameters: ``BIGINT``, ``ARRAY``, ``STRUCT``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class ScalarType(DataType):
    """A type without parameters."""

    head: str

    @property
    def name(self) -> str:
        return self.head

    def __str__(self) -> str:
        return self.head


class DecimalType(DataType):
    """A decimal number; with parameters, of at most ``precision`` digits, ``scale`` of them after the point.

    >>> str(DecimalType(10, 2)), str(DecimalType())
    ('DECIMAL(10, 2)', 'DECIMAL')
    """

    precision: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        if self.precision is None and self.scale is None:
            return
        if self.precision is None or self.scale is None or not (0 <= self.scale <= self.precision and self.precision):
            raise ExpressionError(
                f"DECIMAL({self.precision}, {self.scale}) is not a type",
                hint="a decimal has at least one digit, and at most all of them after the point",
            )

    @property
    def name(self) -> str:
        return "DECIMAL"

    def __str__(self) -> str:
        return "DECIMAL" if self.precision is None else f"DECIMAL({self.precision}, {self.scale})"


class ArrayType(DataType):
    """A list of values of one type.

    >>> str(ArrayType(BIGINT))
    'ARRAY<BIGINT>'
    """

    element: DataType

    @property
    def name(self) -> str:
        return "ARRAY"

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


class MapType(DataType):
    """A dictionary whose keys are of one type and whose values are of one type.

    >>> str(MapType(STRING, DOUBLE))
    'MAP<STRING, DOUBLE>'
    """

    key: DataType
    value: DataType

    @property
    def name(self) -> str:
        return "MAP"

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


class StructType(DataType):
    """Named fields, each with its type.

    >>> str(StructType((("a", BIGINT), ("order id", STRING))))
    'STRUCT<a BIGINT, `order id` STRING>'
    """

    fields: tuple[tuple[str, DataType], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ExpressionError(f"a struct has the field {twice!r} twice")

    @property
    def name(self) -> str:
        return "STRUCT"

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{quoted(name)} {type_}' for name, type_ in self.fields)}>"


BOOLEAN = ScalarType("BOOLEAN")
INT = ScalarType("INT")
BIGINT = ScalarType("BIGINT")
DOUBLE = ScalarType("DOUBLE")
DECIMAL = DecimalType()
STRING = ScalarType("STRING")
BYTES = ScalarType("BYTES")
DATE = ScalarType("DATE")
TIME = ScalarType("TIME")
TIMESTAMP = ScalarType("TIMESTAMP")
ANY = ScalarType("ANY")
NULL = ScalarType("NULL")

_NAMED: dict[str, DataType] = {
    str(t): t for t in (BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL, STRING, BYTES, DATE, TIME, TIMESTAMP, ANY, NULL)
}
_NAMED |= {"INTEGER": INT, "VARCHAR": STRING}

WIDENING = ("INT", "BIGINT", "DECIMAL", "DOUBLE")
"""The numeric types, each wider than the one before."""

INTEGERS = frozenset({"INT", "BIGINT"})


def quoted(name: str) -> str:
    """Returns a name as SQL text: in back quotes unless it is a plain identifier.

    >>> quoted("amount"), quoted("order id")
    ('amount', '`order id`')
    """
    return name if name.isascii() and name.isidentifier() else "`" + name.replace("`", "``") + "`"


class MismatchError(Exception):
    """Types that do not match. The checker converts it to an ExpressionError with the position."""


def common_type(types: Iterable[DataType]) -> DataType:
    """Returns the type that includes the values of all types, or raises MismatchError.

    >>> common_type([INT, DOUBLE, NULL])
    DOUBLE
    """
    result: DataType = NULL
    for type_ in types:
        result = _wider(result, type_)
    return result


def _wider(a: DataType, b: DataType) -> DataType:
    if b in (a, NULL):
        return a
    if a == NULL:
        return b
    if ANY in (a, b):
        return ANY
    if a.name in WIDENING and b.name in WIDENING:
        return _wider_number(a, b)
    if {a.name, b.name} & INTEGERS and TIMESTAMP in (a, b):
        return TIMESTAMP
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return ArrayType(_wider(a.element, b.element))
    if isinstance(a, MapType) and isinstance(b, MapType):
        return MapType(_wider(a.key, b.key), _wider(a.value, b.value))
    if isinstance(a, StructType) and isinstance(b, StructType) and dict(a.fields).keys() == dict(b.fields).keys():
        other = dict(b.fields)
        return StructType(tuple((name, _wider(type_, other[name])) for name, type_ in a.fields))
    raise MismatchError(f"{a} and {b} have no common type")


def _wider_number(a: DataType, b: DataType) -> DataType:
    if a.name == b.name == "DECIMAL":
        return DECIMAL  # of different sizes: the number of digits is not tracked
    return max(a, b, key=lambda t: WIDENING.index(t.name))


def parse_type(text: str) -> DataType:
    """Parses the text of a type; type names may be in upper or lower case.

    >>> parse_type("struct<a bigint, b array<varchar>>")
    STRUCT<a BIGINT, b ARRAY<STRING>>
    """
    return _TypeParser(text).read()


class _TypeParser:
    """A recursive descent parser; ``tokens`` are the remaining tokens in reverse order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = re.findall(r"[<>(),]|`(?:[^`]|``)*`|\w+|\S", text)[::-1]

    def read(self) -> DataType:
        result = self.type()
        if self.tokens:
            raise self.problem(f"{self.tokens[-1]!r} is left over")
        return result

    def type(self) -> DataType:
        head = self.next().upper()
        if head == "ARRAY":
            (element,) = self.parameters(1)
            return ArrayType(element)
        if head == "MAP":
            key, value = self.parameters(2)
            return MapType(key, value)
        if head == "STRUCT":
            return StructType(tuple(self.fields()))
        if head == "DECIMAL" and self.tokens and self.tokens[-1] == "(":
            return self.decimal()
        if head not in _NAMED:
            raise self.problem(f"there is no type {head}", suggestion(head, [*_NAMED, "ARRAY", "MAP", "STRUCT"]))
        return _NAMED[head]

    def decimal(self) -> DataType:
        _, precision, _, scale, close = (self.next() for _ in range(5))
        if not (precision.isdecimal() and scale.isdecimal() and close == ")"):
            raise self.problem("a decimal is written DECIMAL(precision, scale)")
        return DecimalType(int(precision), int(scale))

    def parameters(self, count: int) -> list[DataType]:
        types = []
        for i in range(count):
            self.expect("," if i else "<")
            types.append(self.type())
        self.expect(">")
        return types

    def fields(self) -> Iterable[tuple[str, DataType]]:
        self.expect("<")
        while self.tokens and self.tokens[-1] != ">":
            name = self.next()
            yield (name[1:-1].replace("``", "`") if name[0] == "`" else name), self.type()
            if not self.tokens or self.tokens[-1] != ",":
                break
            self.next()
        self.expect(">")

    def next(self) -> str:
        if not self.tokens:
            raise self.problem("it ends too early")
        token: str = self.tokens.pop()
        return token

    def expect(self, token: str) -> None:
        actual = self.next()
        if actual != token:
            raise self.problem(f"expected {token!r}, not {actual!r}")

    def problem(self, what: str, hint: str | None = None) -> ExpressionError:
        return ExpressionError(f"cannot read the type {self.text!r}: {what}", hint=hint)
