"""Reading stores in a test, whatever the number of partitions."""

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
    """The parts of a store that several tasks have, read as one.

    Every method of a store can be called: one that gives a value asks the parts in turn until one has it, one that
    gives entries gives those of all parts, ordered by the bytes of their keys.
    """

    def __init__(self, spec: StoreSpec, partitions: list[Any]) -> None:
        self._spec = spec
        self._partitions = partitions

    def __getattr__(self, name: str) -> Any:
        members = [getattr(store, name) for store in self._partitions]
        if not callable(members[0]):
            return members[0]

        def ask(*args: Any, **kwargs: Any) -> Any:
            answers = [member(*args, **kwargs) for member in members]
            if name == "approximate_num_entries":
                return sum(answers)
            if isinstance(answers[0], list):
                return self._together(answers, name)
            if isinstance(answers[0], Iterator):
                return iter(self._together([list(answer) for answer in answers], name))
            return next((answer for answer in answers if answer is not None), None)

        return ask

    def _together(self, answers: list[list[Any]], name: str) -> list[Any]:
        """The entries of all parts, in order; those of one key are all in one part."""
        found = [answer for answer in answers if answer]
        if len(found) < 2:
            return found[0] if found else []
        entries = [entry for answer in found for entry in answer]
        return sorted(entries, key=self._order, reverse=name.startswith(("reverse", "backward")))

    def _order(self, entry: Any) -> Any:
        key = entry[0]
        windowed = isinstance(key, Windowed)
        data = self._spec.key.serialize(key.key if windowed else key)
        return (data, key.start, key.end) if windowed else (data, 0, 0)
