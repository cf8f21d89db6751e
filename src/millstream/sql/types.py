"""The types of SQL.

Values in a row are plain Python objects: ``bool``, ``int`` (INTEGER and BIGINT), ``float``, ``Decimal``, ``str``,
``bytes``, ``int`` days (DATE), ``int`` milliseconds of the day (TIME), ``int`` milliseconds since 1970 (TIMESTAMP),
``list``, ``dict`` (MAP), and ``dict`` with every field (STRUCT). A null is None. Expressions have static types, so
values need not carry them.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.core.frozen import Value


class SqlType(Value):
    """A type; its text is that of schemas and messages.

    >>> print(ArrayType(DecimalType(4, 2)), StructType((("A", INTEGER),)), MapType(STRING, DOUBLE))
    ARRAY<DECIMAL(4, 2)> STRUCT<`A` INTEGER> MAP<STRING, DOUBLE>
    """

    @property
    def parts(self) -> tuple[SqlType, ...]:
        """The types inside of this one."""
        return ()

    def walk(self) -> Iterator[SqlType]:
        """Yields this type and all types inside of it."""
        yield self
        for part in self.parts:
            yield from part.walk()


class PrimitiveType(SqlType):
    """A type without parameters."""

    name: str

    def __str__(self) -> str:
        return self.name


BOOLEAN = PrimitiveType("BOOLEAN")
INTEGER = PrimitiveType("INTEGER")
BIGINT = PrimitiveType("BIGINT")
DOUBLE = PrimitiveType("DOUBLE")
STRING = PrimitiveType("STRING")
BYTES = PrimitiveType("BYTES")
DATE = PrimitiveType("DATE")
TIME = PrimitiveType("TIME")
TIMESTAMP = PrimitiveType("TIMESTAMP")

PRIMITIVES = {
    **{type_.name: type_ for type_ in (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP)},
    "INT": INTEGER,
    "VARCHAR": STRING,
}
"""The types without parameters, by each of their names."""


class DecimalType(SqlType):
    """DECIMAL(precision, scale)."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


class ArrayType(SqlType):
    """ARRAY<element>."""

    element: SqlType

    @property
    def parts(self) -> tuple[SqlType, ...]:
        """The types inside of this one."""
        return (self.element,)

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


class MapType(SqlType):
    """MAP<key, value>."""

    key: SqlType
    value: SqlType

    @property
    def parts(self) -> tuple[SqlType, ...]:
        """The types inside of this one."""
        return (self.key, self.value)

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


class StructType(SqlType):
    """STRUCT<name type, …>."""

    fields: tuple[tuple[str, SqlType], ...]

    @property
    def parts(self) -> tuple[SqlType, ...]:
        """The types of the fields."""
        return tuple(type_ for _name, type_ in self.fields)

    def field(self, name: str) -> SqlType | None:
        """Returns the type of a field, None if there is no such field."""
        return next((type_ for field, type_ in self.fields if field == name), None)

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'`{name}` {type_}' for name, type_ in self.fields)}>"


HEADERS = ArrayType(StructType((("KEY", STRING), ("VALUE", BYTES))))
"""The type of a column with all headers of a record."""
