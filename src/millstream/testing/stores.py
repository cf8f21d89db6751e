"""Read-only stores over all partitions, for the test driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.core.records import Windowed
from millstream.state.spec import StoreSpec
from millstream.state.stores import user_store


def read_store(spec: StoreSpec, stores: list[Any], *, timestamped: bool = False) -> Any:
    """Returns a read-only store over the partitions of a store that the tasks have."""
    partitions = [user_store(store, read_only=True, timestamped=timestamped) for store in stores]
    return partitions[0] if len(partitions) == 1 else AllPartitions(spec, partitions)


class AllPartitions:
    """The partitions of a store, read as one store.

    It has every method of a store. A method that returns a value returns the first that a partition has; a method that
    returns entries returns those of all partitions, ordered by the bytes of their keys.
    """

    def __init__(self, spec: StoreSpec, partitions: list[Any]) -> None:
        self._spec = spec
        self._partitions = partitions

    def __getattr__(self, name: str) -> Any:
        members = [getattr(store, name) for store in self._partitions]
        if not callable(members[0]):
            return members[0]

        def call(*args: Any, **kwargs: Any) -> Any:
            results = [member(*args, **kwargs) for member in members]
            if name == "approximate_num_entries":
                return sum(results)
            if isinstance(results[0], list):
                return self._merge(results, name)
            if isinstance(results[0], Iterator):
                return iter(self._merge([list(result) for result in results], name))
            return next((result for result in results if result is not None), None)

        return call

    def _merge(self, results: list[list[Any]], name: str) -> list[Any]:
        """Merges the entries of all partitions in order. All entries of a key are in one partition."""
        nonempty = [result for result in results if result]
        if len(nonempty) < 2:
            return nonempty[0] if nonempty else []
        entries = [entry for result in nonempty for entry in result]
        return sorted(entries, key=self._order, reverse=name.startswith(("reverse", "backward")))

    def _order(self, entry: Any) -> Any:
        key = entry[0]
        windowed = isinstance(key, Windowed)
        data = self._spec.key.serialize(key.key if windowed else key)
        return (data, key.start, key.end) if windowed else (data, 0, 0)
