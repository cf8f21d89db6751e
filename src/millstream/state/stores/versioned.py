"""Versioned key-value stores."""

from __future__ import annotations

from typing import Generic, TypeVar

from millstream.state.api import NOT_PUT, VersionedRowStore
from millstream.state.stores.base import StateStore, VersionedRecord

K = TypeVar("K")
V = TypeVar("V")


class VersionedKeyValueStore(StateStore, Generic[K, V]):
    """A versioned key-value store: values by key and time.

    >>> from millstream.serde import STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> rows = open_store(StoreSpec("prices", "versioned", STRING, STRING, retention_ms=1000))
    >>> prices = VersionedKeyValueStore(rows)
    >>> prices.put("a", "x", 10), prices.put("a", "y", 20), prices.put("a", "z", 15)
    (-1, -1, 20)
    >>> prices.get("a")
    VersionedRecord(value='y', timestamp=20, valid_to=None)
    >>> prices.get("a", as_of=12)
    VersionedRecord(value='x', timestamp=10, valid_to=15)
    """

    __slots__ = ()
    _kind = "versioned"
    _rows: VersionedRowStore

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Puts a version; None is a version too, a tombstone.

        Returns:
            The time until which the version is valid; -1 (``LATEST``) if it is the latest one; -2**63 (``NOT_PUT``) if
            it was not put, because it is older than the history retention allows.
        """
        self._check_row(None, timestamp)
        return self._rows.put(key, value, timestamp)

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Puts a tombstone; returns the version that was valid at that time."""
        self._check_row(None, timestamp)
        former = self.get(key, as_of=timestamp)
        deleted = self._rows.delete(key, timestamp)
        return None if deleted is None else former

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """Returns the latest version, or the version that was valid at a time."""
        if as_of is None:
            version = self._rows.get(key)
            return None if version is None else VersionedRecord(*version)
        version = self._rows.get_as_of(key, as_of)
        return None if version is None else VersionedRecord(*version, self._rows.valid_to(key, version[1]))

    @staticmethod
    def was_put(result: int) -> bool:
        """Returns whether a ``put`` with this result has put the version."""
        return result != NOT_PUT
