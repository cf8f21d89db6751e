"""JSON, with or without a type to decode into. It is encoded and decoded by msgspec, pydantic's models by pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from millstream.errors import ConfigError
from millstream.serde.api import Serde
from millstream.serde.json_codec import codec_for
from millstream.serde.messages import cannot_read, cannot_write

T = TypeVar("T")

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

    A NamedTuple is an array in JSON. NaN and the infinities do not exist in JSON and are written as null. Dicts are
    written in their own order, so as keys of records two equal dicts may differ: use a dataclass or a NamedTuple there.
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
            return encode(value)
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise cannot_write("json", value, str(error), hint=_CARRIES) from error

    def deserialize(self, data: bytes | None) -> T | None:
        if data is None:
            return None
        if (decode := self._decode) is None:
            decode = self._prepare()[1]
        try:
            return decode(data)
        except Exception as error:  # a dataclass may raise anything in its __post_init__
            reason = str(error) or type(error).__name__
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


def type_text(hint: object) -> str:
    """Returns a type as it is written in code.

    >>> type_text(int), type_text(list[int])
    ('int', 'list[int]')
    """
    return hint.__qualname__ if isinstance(hint, type) else str(hint).replace("typing.", "")[:100]
