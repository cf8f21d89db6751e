"""The interface of a serde, which serializes keys or values to bytes, and deserializes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from millstream.core.records import Headers

if TYPE_CHECKING:
    from millstream.expr.description import Description

T = TypeVar("T")


class SerdeContext(NamedTuple):
    """Where the application uses a serde: the argument of `Serde.bind`.

    Attributes:
        topic: The topic. For a store, its changelog topic. None if the serde reads several topics, or if a function
            chooses the topic of each record.
        is_key: The serde serializes keys; otherwise values.
        registry: The schema registry of the application, which each process opens by itself; None if the serde is
            used without an application.
        recorded: What the state of the application records of schemas, by subject.
    """

    topic: str | None
    is_key: bool
    registry: Any = None
    recorded: Mapping[str, Any] | None = None


class Serde(ABC, Generic[T]):
    """Serializes values of one type to bytes, and deserializes them.

    Subclass it for your own format, with ``serialize`` and ``deserialize``. Both return ``None`` for ``None``: null is
    no value (in a table, it deletes the row). Raise :class:`~millstream.errors.SerializationError` or
    :class:`~millstream.errors.DeserializationError` for values or bytes that the format does not support. Serdes are
    pickled to be sent to the workers, so their attributes must support pickle.

    >>> class Celsius(Serde[float]):
    ...     name = "celsius"
    ...     python_type = float
    ...
    ...     def serialize(self, value: float | None) -> bytes | None:
    ...         return None if value is None else str(value).encode()
    ...
    ...     def deserialize(self, data: bytes | None) -> float | None:
    ...         return None if data is None else float(data)
    >>> Celsius().deserialize(Celsius().serialize(21.5))
    21.5

    Attributes:
        name: The name of the format, for messages and plan fingerprints: ``"long"``, ``"list<long>"``. It must be the
            same in every run. The default is the name of the class.
        python_type: The Python annotation of the values: ``int``, ``Order``; ``object`` if they are of any type.
        immutable: A value that ``serialize`` accepts cannot change in place, and deserializing its bytes returns an
            indistinguishable value. The engine may then store the value itself instead of its bytes.
        hashable: Values are hashable, and two of them are equal exactly when their bytes are equal. The engine
            may then use the values themselves as keys of a dict.
        exact: A value has exactly one serialized form: serializing a deserialized value returns the same bytes. The
            engine may then forward the bytes of a record without serializing it again.
        described_as: What is known of the values beside their Python type: the result of `describe_values`.
        uses_headers: The serde reads the headers of records. Sources and sinks then call ``serialize_with_headers``
            and ``deserialize_with_headers``.
    """

    name: str
    python_type: object = object
    immutable: bool = False
    hashable: bool = False
    exact: bool = False
    uses_headers: bool = False
    described_as: Description | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @abstractmethod
    def serialize(self, value: T | None) -> bytes | None:
        """Returns the bytes of a value; None for None.

        Raises:
            SerializationError: The serde does not support the value.
        """

    @abstractmethod
    def deserialize(self, data: bytes | None) -> T | None:
        """Returns the value of the bytes; None for None.

        Raises:
            DeserializationError: The bytes are not in the format of this serde.
        """

    def describe_values(self) -> Description | None:
        """Returns what is known of the values: their fields and types; None if only ``python_type`` is known."""
        return self.described_as

    @property
    def inner_serdes(self) -> tuple[Serde[Any], ...]:
        """The serdes of the parts of a value, if this serde joins their bytes."""
        return ()

    def bind(self, context: SerdeContext) -> Serde[T]:
        """Returns the serde for one use of it: it learns its topic, and whether it serializes keys or values.

        Millstream calls it once for each source, sink, repartition topic and store, never for a record. The default
        returns the serde itself. A bound serde can be bound again.
        """
        return self

    def serialize_with_headers(self, value: T | None, headers: Headers) -> bytes | None:
        """Returns the bytes of a value of a record with these headers. Called only if ``uses_headers`` is set."""
        return self.serialize(value)

    def deserialize_with_headers(self, data: bytes | None, headers: Headers) -> T | None:
        """Returns the value of the bytes of a record with these headers. Called only if ``uses_headers`` is set."""
        return self.deserialize(data)

    def schema_id(self, data: bytes | None, headers: Headers) -> int | None:
        """Returns the id of the schema with which a record was written; None if the record does not have one."""
        return None

    def serialize_all(self, values: Collection[T | None]) -> list[bytes | None]:
        """Returns the bytes of several values. A subclass may override it with a faster way than one by one.

        Raises:
            SerializationError: The serde does not support one of the values.
        """
        return list(map(self.serialize, values))

    def deserialize_all(self, data: Collection[bytes | None]) -> list[T | None]:
        """Returns the values of several byte strings. A subclass may override it with a faster way than one by one.

        Raises:
            DeserializationError: One of them is not in the format of this serde.
        """
        return list(map(self.deserialize, data))

    def __repr__(self) -> str:
        return f"<{self.name} serde>"


def innermost(serde: Serde[Any]) -> Iterator[Serde[Any]]:
    """Yields the serdes that a serde consists of, in the order of their parts: itself, if it has none."""
    if not serde.inner_serdes:
        yield serde
    for part in serde.inner_serdes:
        yield from innermost(part)


def serializes_with_headers(serde: Serde[Any]) -> bool:
    """Whether the bytes of a value depend on the headers of its record."""
    return serde.uses_headers and type(serde).serialize_with_headers is not Serde.serialize_with_headers


def reader(serde: Serde[T]) -> Callable[[bytes | None, Headers], T | None]:
    """Returns the function that deserializes the bytes of a record with headers."""
    if serde.uses_headers:
        return serde.deserialize_with_headers
    read = serde.deserialize
    return lambda data, _headers: read(data)
