"""JSON, with or without a type to decode into. It is encoded and decoded by msgspec, pydantic's models by pydantic."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Generic, TypeVar, overload

from millstream.errors import ConfigError
from millstream.serde.api import Serde
from millstream.serde.error_messages import cannot_read, cannot_write
from millstream.serde.json_codec import as_python, codec_for
from millstream.text.escaping import plain_text

T = TypeVar("T")

_NULL = b"null"
_MAYBE_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How NaN and the infinities begin in MessagePack, in which other values may have the same bytes."""

_CARRIES = (
    "JSON carries dict, list, str, int, float, bool, None, dataclasses, NamedTuples, msgspec Structs and "
    "pydantic models; convert it first, or give the operator another serde"
)


class JsonSerde(Serde[T], Generic[T]):
    """Compact JSON in UTF-8.

    With a type, what is read is checked against it and made into it: fields that are missing or of the wrong
    type are an error. Without one, it becomes plain dicts, lists, strings and numbers. What is written is not checked.

    The name is ``"json"`` whatever the type is, because the bytes are: renaming a class, or another Python
    version's way to print it, does not make a new plan of an old one.

    A NamedTuple is an array in JSON. JSON has no NaN and no infinities: they are an error, read or written. Whole
    numbers may have more than 64 bits. Dicts are written in their own order, so as keys of records two equal dicts may
    differ: use a dataclass or a NamedTuple there.
    """

    name = "json"

    def __init__(self, python_type: object = object) -> None:
        self.python_type = python_type
        # Made when first used: msgspec takes 50 ms to import.
        self._encode: Callable[[Any], bytes] | None = None
        self._decode: Callable[[bytes], T] | None = None

    def serialize(self, value: T | None) -> bytes | None:
        if value is None:
            return None
        if (encode := self._encode) is None:
            encode = self._prepare()[0]
        try:
            data = encode(value)
            if data.find(_NULL) >= 0:  # so msgspec writes NaN; `in` would take twice as long to find it
                _refuse_not_finite(value)
            return data
        except UnicodeEncodeError as error:
            reason = "a text in it has half of a surrogate pair"
            raise cannot_write("json", value, reason, hint=_CARRIES) from error
        except RecursionError as error:
            raise cannot_write("json", value, "it is nested too deeply", hint=_CARRIES) from error
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise cannot_write("json", value, str(error), hint=_CARRIES) from error

    def serialize_all(self, values: Collection[T | None]) -> list[bytes | None]:
        encode = self._encode or self._prepare()[0]
        with suppress(Exception):  # one by one then, which tells what is wrong
            data = list(map(encode, values))
            if _NULL not in b"".join(data) or (None not in values and not _may_not_be_finite(list(values))):
                return data  # type: ignore[return-value]  # bytes are what may also be None
        return super().serialize_all(values)

    def deserialize(self, data: bytes | None) -> T | None:
        if data is None:
            return None
        if (decode := self._decode) is None:
            decode = self._prepare()[1]
        try:
            return decode(data)
        except Exception as error:  # a dataclass may raise anything in its __post_init__
            deep = isinstance(error, RecursionError)
            reason = "it is nested too deeply" if deep else plain_text(error) or type(error).__name__
            wanted = "" if self.python_type is object else f"as {type_text(self.python_type)}, "
            raise cannot_read("json", data, wanted + reason) from error

    def _prepare(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], T]]:
        """Makes the encoder and the decoder. A type that cannot be decoded is found here."""
        try:
            # Threads may get here at the same time; they make the same, and the last one's is kept.
            self._encode, self._decode = codec_for(self.python_type)
        except (TypeError, ValueError, NameError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"json serde: cannot decode into {type_text(self.python_type)}: {error}",
                hint="give a dataclass, TypedDict, NamedTuple, Struct, pydantic model, or a list or dict of such",
            ) from error
        return self._encode, self._decode

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.python_type == other.python_type

    def __hash__(self) -> int:
        return hash(self.name)  # types such as Annotated[int, []] are not hashable

    def __reduce__(self) -> tuple[Callable[[Any], Serde[Any]], tuple[object]]:
        return json_of, (self.python_type,)


JSON: Serde[Any] = JsonSerde()


@overload
def json_of(python_type: type[T]) -> Serde[T]: ...
@overload
def json_of(python_type: Any) -> Serde[Any]: ...
def json_of(python_type: Any) -> Serde[Any]:
    """Returns a serde for JSON that is read into a type: a dataclass, TypedDict, NamedTuple, Struct, ``list[int]``, …

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     id: str
    ...     quantity: int = 1
    >>> orders = json_of(Order)
    >>> orders.serialize(Order("o1", 3))
    b'{"id":"o1","quantity":3}'
    >>> orders.deserialize(b'{"id": "o2"}')
    Order(id='o2', quantity=1)
    >>> orders.deserialize(b'{"id": 7}')
    Traceback (most recent call last):
    ...
    millstream.errors.DeserializationError: json serde: cannot read b'{"id": 7}': as Order, Expected `str`, got `int` - at `$.id`
      hint: was the topic written with another serde?
    """  # noqa: E501
    return JSON if python_type is object or python_type is Any else JsonSerde(python_type)


def _refuse_not_finite(value: Any) -> None:
    """Refuses numbers that JSON does not have. msgspec writes them as null, which would be read as another value.

    Raises:
        SerializationError: There is one.
    """
    if not _may_not_be_finite(value):
        return
    import msgspec

    parts = [msgspec.to_builtins(value, enc_hook=as_python)]
    while parts:
        part = parts.pop()
        if isinstance(part, float):
            if part - part != 0.0:  # so it is of NaN and of the infinities only
                raise cannot_write("json", value, f"JSON has no {part}", hint="write None, or a text, in its place")
        elif isinstance(part, dict):
            parts.extend(part.values())
        elif isinstance(part, list | tuple):
            parts.extend(part)


def _may_not_be_finite(value: Any) -> bool:
    """Whether there may be a NaN or an infinity in a value: seldom so if there is none, and quick to tell."""
    import msgspec

    try:
        return _MAYBE_NOT_FINITE.search(msgspec.msgpack.encode(value, enc_hook=as_python)) is not None
    except OverflowError:  # MessagePack has no whole numbers of more than 64 bits
        return True


def type_text(hint: object) -> str:
    """Returns a type as it is written in code.

    >>> type_text(int), type_text(list[int])
    ('int', 'list[int]')
    """
    return hint.__qualname__ if isinstance(hint, type) else str(hint).replace("typing.", "")[:100]
