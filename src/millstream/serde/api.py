"""The interface of a serde, which serializes keys or values to bytes, and deserializes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


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
    """

    name: str
    python_type: object = object
    immutable: bool = False
    hashable: bool = False
    exact: bool = False

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
