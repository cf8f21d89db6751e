"""The JSON serde, with or without a type to decode into. msgspec encodes and decodes, pydantic its own models."""

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
"""The first bytes of NaN and the infinities in MessagePack. Other values may contain the same bytes."""

_CARRIES = (
    "JSON carries dict, list, str, int, float, bool, None, dataclasses, NamedTuples, msgspec Structs and "
    "pydantic models; convert it first, or give the operator another serde"
)


class JsonSerde(Serde[T], Generic[T]):
    """Compact JSON in UTF-8.

    With a type, ``deserialize`` validates the JSON and converts it to the type: missing fields and fields of the wrong
    type are an error. Without one, it returns plain dicts, lists, strings and numbers. ``serialize`` does not validate.

    The name is ``"json"`` for every type, because the format is the same: renaming a class, or a Python version that
    prints it differently, does not change the fingerprint of a plan.

    A NamedTuple is an array in JSON. JSON has no NaN and no infinities: both methods refuse them. Integers may have
    more than 64 bits. Dicts are written in their own order, so two equal dicts may be different keys of records: use a
    dataclass or a NamedTuple for keys.
    """

    name = "json"

    def __init__(self, python_type: object = object) -> None:
        self.python_type = python_type
        # Created on first use: msgspec takes 50 ms to import.
        self._encode: Callable[[Any], bytes] | None = None
        self._decode: Callable[[bytes], T] | None = None

    def serialize(self, value: T | None) -> bytes | None:
        if value is None:
            return None
        if (encode := self._encode) is None:
            encode = self._prepare()[0]
        try:
            data = encode(value)
            if data.find(_NULL) >= 0:  # msgspec writes NaN as null; `in` would take twice as long
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
        with suppress(Exception):  # on any error one by one, which raises the precise error
            data = list(map(encode, values))
            if _NULL not in b"".join(data) or (None not in values and not _may_not_be_finite(list(values))):
                return data  # type: ignore[return-value]  # list is invariant: bytes are bytes | None
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
            target = "" if self.python_type is object else f"as {type_text(self.python_type)}, "
            raise cannot_read("json", data, target + reason) from error

    def _prepare(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], T]]:
        """Creates the encoder and the decoder. A type that cannot be decoded into raises ConfigError here."""
        try:
            # Safe with several threads: all of them create the same.
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
    """Returns a serde for JSON that is decoded into a type: a dataclass, TypedDict, NamedTuple, Struct, ``list[int]``, …

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
    """Refuses NaN and infinities, which JSON does not have. msgspec would write null, which is another value.

    Raises:
        SerializationError: The value contains one.
    """
    if not _may_not_be_finite(value):
        return
    import msgspec

    parts = [msgspec.to_builtins(value, enc_hook=as_python)]
    while parts:
        part = parts.pop()
        if isinstance(part, float):
            if part - part != 0.0:  # true for NaN and the infinities only
                raise cannot_write("json", value, f"JSON has no {part}", hint="write None, or a text, in its place")
        elif isinstance(part, dict):
            parts.extend(part.values())
        elif isinstance(part, list | tuple):
            parts.extend(part)


def _may_not_be_finite(value: Any) -> bool:
    """Whether a value may contain NaN or an infinity: a quick test with rare false positives."""
    import msgspec

    try:
        return _MAYBE_NOT_FINITE.search(msgspec.msgpack.encode(value, enc_hook=as_python)) is not None
    except OverflowError:  # MessagePack has no integers of more than 64 bits
        return True


def type_text(hint: object) -> str:
    """Returns a type as it is written in code.

    >>> type_text(int), type_text(list[int])
    ('int', 'list[int]')
    """
    return hint.__qualname__ if isinstance(hint, type) else str(hint).replace("typing.", "")[:100]
