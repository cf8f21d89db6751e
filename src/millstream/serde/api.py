"""The contract of a serde: how keys and values become the bytes of a record, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class Serde(ABC, Generic[T]):
    """Turns values of one kind into bytes and back.

    Subclass it to bring your own format. Both methods keep null apart from everything else: ``None`` becomes
    ``None`` and comes back as ``None`` (in a table, null deletes the row). Raise
    :class:`~millstream.errors.SerializationError` or :class:`~millstream.errors.DeserializationError` for what
    cannot be carried. The other two need not be written. A serde travels to the workers by pickle, so keep what cannot
    be pickled out of it.

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
        name: What the bytes are, for people and for plan fingerprints: ``"long"``, ``"list<long>"``. It must not
            change from one run to the next. A subclass that sets none is named after its class.
        python_type: The Python annotation that the values have: ``int``, ``Order``; ``object`` if they are of any type.
        immutable: A value that ``serialize`` accepts cannot change in place, and reading its bytes gives back a value
            that nobody can tell from it. The engine may then keep the value itself instead of its bytes.
        hashable: Values are hashable, and two of them are equal exactly when their bytes are equal. The engine
            may then use the values themselves as keys of a dict.
        exact: There is but one way to write a value: bytes that can be read are those that ``serialize`` gives for what
            was read. The engine may then pass them on as they came.
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
            SerializationError: If this serde cannot carry the value.
        """

    @abstractmethod
    def deserialize(self, data: bytes | None) -> T | None:
        """Returns the value that was written as these bytes; None for None.

        Raises:
            DeserializationError: If the bytes were not written by this serde.
        """

    def serialize_all(self, values: Collection[T | None]) -> list[bytes | None]:
        """Returns the bytes of each of many values; a subclass may know a quicker way than one by one.

        Raises:
            SerializationError: If this serde cannot carry one of them.
        """
        return list(map(self.serialize, values))

    def deserialize_all(self, data: Collection[bytes | None]) -> list[T | None]:
        """Returns the value of each of many; a subclass may know a quicker way than one by one.

        Raises:
            DeserializationError: If one of them was not written by this serde.
        """
        return list(map(self.deserialize, data))

    def __repr__(self) -> str:
        return f"<{self.name} serde>"
