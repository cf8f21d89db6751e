"""One of two topologies that are compared, as plain data, and how differences are put into words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from millstream.core.durations import show_ms
from millstream.errors import TopologyError
from millstream.expr import from_dict
from millstream.plan.fingerprint import FORMAT, to_dict
from millstream.plan.node import Plan

Plain: TypeAlias = Mapping[str, Any]

BEGIN_AGAIN = "begin again from the input: millstream reset; or give the application a new application id"
"""What always helps."""

_TIMES = frozenset({"size", "advance", "difference", "gap", "before", "after", "grace", "idle"})
_KEY_CHANGES = frozenset({"select-key", "map", "flat-map", "table-group-by", "foreign-key-subscribe"})
_KEY_OPTIONS = ("function", "foreign_key", "how", "supplier")


class Side:
    """One of the two topologies, as plain data."""

    def __init__(self, plan: Plan | Plain) -> None:
        data = to_dict(plan) if isinstance(plan, Plan) else plan
        if data.get("format") != FORMAT:
            raise TopologyError(
                f"a stored topology has format {data.get('format')!r}, and this version reads {FORMAT}",
                hint=f"it was written by another version of Millstream: use that one; or {BEGIN_AGAIN}",
            )
        self.application_id: str = data["application_id"]
        self.operators: dict[str, Plain] = data["operators"]
        self.stores: dict[str, Plain] = data["stores"]
        self.functions: Plain = data["functions"]
        self.named = frozenset(data["named"])
        self.topics = {
            operator["options"]["topic"]: {**operator["options"], "operator": name}
            for name, operator in self.operators.items()
            if operator["kind"] == "repartition"
        }

    def owner(self, store: str) -> Plain:
        """The operator that a store belongs to."""
        return self.operators[self.stores[store]["operator"]]

    def writers(self, store: str) -> list[str]:
        """The operators that write a store: its owner, those that share it, processors that use it."""
        owner: str = self.stores[store]["operator"]
        others = [
            name
            for name, operator in self.operators.items()
            if store in operator["options"].get("uses", ()) or operator["options"].get("shared") == owner
        ]
        return [owner, *others]

    def above_stores(self) -> frozenset[str]:
        """The operators that decide what is in stores: those that write one, and all above them."""
        pending = [name for store in self.stores for name in self.writers(store)]
        above = set(pending)
        while pending:
            parents = [name for name in self.operators[pending.pop()]["parents"] if name not in above]
            above.update(parents)
            pending += parents
        return frozenset(above)

    def feeds(self, store: str) -> list[Plain]:
        """The sources and repartitions whose records reach a store directly."""
        return self._above(self.writers(store), frozenset({"source", "repartition", "global-table"}))

    def groupings(self, store: str) -> list[Plain]:
        """What gives the rows of a store their keys: the nearest operators above it that change keys."""
        stateful = {"source", "global-table", "aggregate", "window-aggregate", "table-aggregate", "cogroup"}
        above = [parent for name in self.writers(store) for parent in self.operators[name]["parents"]]
        nearest = self._above(above, _KEY_CHANGES | stateful | {"process"})
        return [
            {key: operator["options"][key] for key in _KEY_OPTIONS if key in operator["options"]}
            for operator in nearest
            if operator["kind"] not in stateful and not operator["options"].get("keeps_key", False)
        ]

    def _above(self, start: list[str], kinds: frozenset[str]) -> list[Plain]:
        """The nearest operators of some kinds, at or above others."""
        pending = list(start)
        seen = dict.fromkeys(pending)
        nearest = []
        while pending:
            operator = self.operators[pending.pop()]
            if operator["kind"] in kinds:
                nearest.append(operator)
                continue
            pending += [parent for parent in operator["parents"] if parent not in seen]
            seen.update(dict.fromkeys(operator["parents"]))
        return nearest


def differing(before: Plain, after: Plain) -> list[str]:
    """The options that two operators do not have in common."""
    return [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def is_known(before: Any, after: Any) -> bool:
    """Whether two options are known to differ: not only in Python functions, about which nothing can be known."""
    if is_callable(before) or is_callable(after):
        return False
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return any(is_known(before.get(key), after.get(key)) for key in {*before, *after})
    if isinstance(before, list) and isinstance(after, list):
        return len(before) != len(after) or any(map(is_known, before, after))
    return bool(before != after)


def is_callable(option: Any) -> bool:
    """Whether an option is a Python function."""
    return isinstance(option, Mapping) and option.get("callable") is True


def worded(before: Plain, after: Plain, of: str, aside: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yields the differing options in words."""
    for key in differing(before, after):
        if key not in aside:
            was, now = (spelled(key, side.get(key)) for side in (before, after))
            yield f"the {key} {of} was {was}, and is now {now}"


def spelled(key: str, value: Any) -> str:
    """An option in words."""
    if isinstance(value, int) and not isinstance(value, bool) and key in _TIMES:
        return show_ms(value)
    if is_callable(value):
        return "a Python function"
    if isinstance(value, Mapping):
        return f"`{from_dict(value)}`"
    return "none" if value is None else str(value)
