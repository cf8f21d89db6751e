"""The serdes of single values, in the formats of Kafka's Java serializers of the same names.

``immutable`` serdes accept exactly one Python type, not its subclasses: stores keep the value itself, and a ``True`` in
a long, or a member of a string enum in a string, would be restored as another value after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from struct import Struct, error as StructError, unpack  # noqa: N812
from typing import TYPE_CHECKING, Generic, TypeVar

from millstream.serde.api import Serde
from millstream.serde.error_messages import cannot_read, cannot_write, wrong_length

if TYPE_CHECKING:
    import uuid

T = TypeVar("T")

_STR: set[type] = {str}
_INT: set[type] = {int}
_SMALL = 1024
"""The bytes of smaller integers are cached: a look-up takes a third of the time."""

_UUID_TEXT = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class _Primitive(Serde[T], Generic[T]):
    """A serde with a single instance: the constant of this module named as the serde, in capitals."""

    def __reduce__(self) -> str:
        return self.name.upper()


class _String(_Primitive[str]):
    """Text as UTF-8.

    Invalid UTF-8 is an error. (Java's deserializer replaces it by U+FFFD, which hides the loss of data.)
    """

    name = "string"
    python_type = str
    immutable = True
    hashable = True
    exact = True

    def serialize(self, value: str | None) -> bytes | None:
        if type(value) is str:
            try:
                return value.encode()
            except UnicodeEncodeError as error:
                raise cannot_write("string", value, f"not valid Unicode, {error.reason}") from error
        if value is None:
            return None
        hint = "convert it first, e.g. str(value) or, for an enum, value.value" if isinstance(value, str) else None
        raise cannot_write("string", value, hint=hint)

    def deserialize(self, data: bytes | None) -> str | None:
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise cannot_read("string", data, f"not UTF-8, {error.reason} at byte {error.start}") from error

    def serialize_all(self, values: Collection[str | None]) -> list[bytes | None]:
        if set(map(type, values)) == _STR:
            with suppress(UnicodeEncodeError):
                return list(map(str.encode, values))  # type: ignore[arg-type]
        return super().serialize_all(values)

    def deserialize_all(self, data: Collection[bytes | None]) -> list[str | None]:
        with suppress(TypeError, UnicodeDecodeError):  # on any error one by one, which raises the precise error
            return list(map(bytes.decode, data))  # type: ignore[arg-type]
        return super().deserialize_all(data)


class _Integer(_Primitive[int]):
    """A signed integer, big-endian, of a fixed number of bytes.

    In byte order, negative numbers come after positive ones, as in Kafka.
    """

    python_type = int
    immutable = True
    hashable = True
    exact = True

    def __init__(self, name: str, layout: str) -> None:
        packer = Struct(layout)
        self.name = name
        self.size = packer.size
        self._pack = packer.pack
        self._unpack = packer.unpack
        self._code = layout[-1]
        self._small: list[bytes] = []

    def serialize(self, value: int | None) -> bytes | None:
        if type(value) is int:
            try:
                return self._pack(value)
            except StructError as error:
                bits = self.size * 8 - 1
                hint = "JSON has larger numbers: value=object" if self.size == 8 else "value=int has 8 bytes"
                raise cannot_write(self.name, value, f"outside -2**{bits} … 2**{bits} - 1", hint=hint) from error
        if value is None:
            return None
        hint = "convert it first: int(value)" if isinstance(value, int) or hasattr(value, "__index__") else None
        raise cannot_write(self.name, value, hint=hint)

    def deserialize(self, data: bytes | None) -> int | None:
        if data is None:
            return None
        try:
            value: int = self._unpack(data)[0]
            return value
        except (StructError, TypeError) as error:
            raise wrong_length(self.name, data, self.size) from error

    def serialize_all(self, values: Collection[int | None]) -> list[bytes | None]:
        if set(map(type, values)) == _INT:
            if min(values) >= 0 and max(values) < _SMALL:  # type: ignore[type-var,operator]  # most counts are small
                small = self._small = self._small or list(map(self._pack, range(_SMALL)))
                return list(map(small.__getitem__, values))  # type: ignore[arg-type]
            with suppress(StructError):
                return list(map(self._pack, values))
        return super().serialize_all(values)

    def deserialize_all(self, data: Collection[bytes | None]) -> list[int | None]:
        with suppress(TypeError):  # there is a None
            if set(map(len, data)) == {self.size}:  # type: ignore[arg-type]
                return list(unpack(f">{len(data)}{self._code}", b"".join(data)))  # type: ignore[arg-type]
        return super().deserialize_all(data)


class _Real(_Primitive[float]):
    """An IEEE 754 number, big-endian. Integers are accepted, and deserialized as floats.

    It is neither ``immutable`` nor ``hashable``: 1 is deserialized as 1.0, a 32-bit float is rounded, -0.0 equals 0.0
    but has other bytes, and NaN does not equal itself.
    """

    python_type = float

    def __init__(self, name: str, layout: str, nan: bytes | None) -> None:
        packer = Struct(layout)
        self.name = name
        self.size = packer.size
        self._pack = packer.pack
        self._unpack = packer.unpack
        self._nan = nan  # the bytes of every NaN; None if each NaN keeps its bits

    def serialize(self, value: float | None) -> bytes | None:
        if value is None:
            return None
        if type(value) is float or (isinstance(value, (float, int)) and type(value) is not bool):
            try:
                return self._pack(value) if value == value or self._nan is None else self._nan  # noqa: PLR0124
            except (StructError, OverflowError) as error:
                raise cannot_write(self.name, value, f"too large for {self.size * 8} bits") from error
        hint = "convert it first: float(value)" if hasattr(value, "__float__") else None
        raise cannot_write(self.name, value, hint=hint)

    def deserialize(self, data: bytes | None) -> float | None:
        if data is None:
            return None
        try:
            value: float = self._unpack(data)[0]
            return value
        except (StructError, TypeError) as error:
            raise wrong_length(self.name, data, self.size) from error


class _Boolean(_Primitive[bool]):
    """One byte: 0x01 for True, 0x00 for False."""

    name = "boolean"
    python_type = bool
    immutable = True
    hashable = True
    exact = True

    def serialize(self, value: bool | None) -> bytes | None:
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        if value is None:
            return None
        raise cannot_write("boolean", value)

    def deserialize(self, data: bytes | None) -> bool | None:
        if data == b"\x01":
            return True
        if data == b"\x00":
            return False
        if data is None:
            return None
        if len(data) != 1:
            raise wrong_length("boolean", data, 1)
        raise cannot_read("boolean", data, "expected 0x00 or 0x01")


class _Bytes(_Primitive[bytes]):
    """Bytes, unchanged. A bytearray or memoryview could change later and is refused."""

    name = "bytes"
    python_type = bytes
    immutable = True
    hashable = True
    exact = True

    def serialize(self, value: bytes | None) -> bytes | None:
        if value is None or type(value) is bytes:
            return value
        convertible = isinstance(value, (bytes, bytearray, memoryview))
        raise cannot_write("bytes", value, hint="convert it first: bytes(value)" if convertible else None)

    def deserialize(self, data: bytes | None) -> bytes | None:
        return data if data is None or type(data) is bytes else bytes(data)


class _Uuid(_Primitive["uuid.UUID"]):
    """A UUID as its text of 36 characters, in lower case."""

    name = "uuid"
    immutable = True
    hashable = True
    size = 36

    _class: type[uuid.UUID] | None = None  # loaded on first use: the module takes 9 ms to import

    @property
    def python_type(self) -> object:  # type: ignore[override]
        return self._load()

    def serialize(self, value: uuid.UUID | None) -> bytes | None:
        if value is None:
            return None
        if type(value) is (self._class or self._load()):
            return str(value).encode()
        raise cannot_write("uuid", value, hint="convert it first: uuid.UUID(value)" if isinstance(value, str) else None)

    def deserialize(self, data: bytes | None) -> uuid.UUID | None:
        if data is None:
            return None
        if _UUID_TEXT.fullmatch(data):
            return (self._class or self._load())(data.decode())
        if len(data) != self.size:
            raise wrong_length("uuid", data, self.size)
        raise cannot_read("uuid", data, "expected hexadecimal digits in groups of 8-4-4-4-12")

    def _load(self) -> type[uuid.UUID]:
        import uuid

        self._class = uuid.UUID
        return uuid.UUID


class _Void(_Primitive[None]):
    """For keys or values that are always null."""

    name = "void"
    python_type = None
    immutable = True
    hashable = True
    exact = True

    def serialize(self, value: None) -> None:
        if value is not None:
            raise cannot_write("void", value)

    def deserialize(self, data: bytes | None) -> None:
        if data is not None:
            raise cannot_read("void", data, "expected null")


STRING: Serde[str] = _String()
LONG: Serde[int] = _Integer("long", ">q")
INT: Serde[int] = _Integer("int", ">i")
SHORT: Serde[int] = _Integer("short", ">h")
FLOAT: Serde[float] = _Real("float", ">f", nan=None)
# Java writes a float with floatToRawIntBits, but a double with doubleToLongBits, which has a single NaN.
DOUBLE: Serde[float] = _Real("double", ">d", nan=b"\x7f\xf8\x00\x00\x00\x00\x00\x00")
BOOLEAN: Serde[bool] = _Boolean()
BYTES: Serde[bytes] = _Bytes()
UUID: Serde[uuid.UUID] = _Uuid()
VOID: Serde[None] = _Void()
