"""Reading stores in a test, whatever the number of partitions."""

from __future__ import annotations

from typing import Any

from millstream.errors import SerdeError
from millstream.state.spec import StoreSpec
from millstream.state.views import view_of


def read_store(spec: StoreSpec, stores: list[Any], *, timestamped: bool = False) -> Any:
    """Returns a read-only view of a store, over the parts of it that the tasks have."""
    views = [view_of(store, read_only=True, timestamped=timestamped) for store in stores]
    return views[0] if len(views) == 1 else AllPartitions(spec, views)


class AllPartitions:
    """The parts of a store that several tasks have, read as one.

    Every method of a view can be called: one that gives a value asks the parts in turn until one has it, one that
    gives entries gives those of all parts, ordered by the bytes of their keys.
    """

    def __init__(self, spec: StoreSpec, views: list[Any]) -> None:
        self._spec = spec
        self._views = views

    def __getattr__(self, name: str) -> Any:
        methods = [getattr(view, name) for view in self._views]

        def ask(*args: Any, **kwargs: Any) -> Any:
            answers = [method(*args, **kwargs) for method in methods]
            if name == "approximate_num_entries":
                return sum(answers)
            if (hasattr(answers[0], "__iter__") and hasattr(answers[0], "__next__")) or isinstance(answers[0], list):
                entries = [entry for answer in answers for entry in answer]
                backward = name.startswith(("reverse", "backward"))
                return iter(sorted(entries, key=self._order, reverse=backward))
            return next((answer for answer in answers if answer is not None), None)

        return ask

    def _order(self, entry: Any) -> Any:
        key = entry[0]
        inner = getattr(key, "key", key)
        try:
            data = self._spec.key.serialize(inner)
        except SerdeError:  # a start, of the entries of one key
            return (b"", key, 0)
        return (data, getattr(key, "start", 0), getattr(key, "end", 0))
