"""One of two topologies that are compared, as plain data, and the wording of differences."""

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
"""The remedy that is always possible."""

_TIMES = frozenset({"size", "advance", "difference", "gap", "before", "after", "grace", "idle"})


class Side:
    """One of the two topologies, as plain data."""

    def __init__(self, plan: Plan | Plain) -> None:
        data = to_dict(plan) if isinstance(plan, Plan) else plan
        if data.get("format") != FORMAT:
            raise TopologyError(
                f"a stored topology has format {data.get('format')!r}, and this version reads {FORMAT}",
                hint=f"another version of Millstream wrote it: use that version; or {BEGIN_AGAIN}",
            )
        self.application_id: str = data["application_id"]
        self.operators: dict[str, Plain] = data["operators"]
        self.stores: dict[str, Plain] = data["stores"]
        self.functions: Plain = data["functions"]
        self.contracts: Plain = data.get("contracts", {})  # plans of earlier versions have none
        self.definitions: Plain = data.get("definitions", {})
        self.named = frozenset(data["named"])
        self.topics = {
            operator["options"]["topic"]: {**operator["options"], "operator": name}
            for name, operator in self.operators.items()
            if operator["kind"] == "repartition"
        }
        self._traits: dict[str, Plain] = data["traits"]

    def owner(self, store: str) -> Plain:
        """Returns the operator that owns a store."""
        return self.operators[self.stores[store]["operator"]]

    def holds_input(self, store: str) -> bool:
        """Whether a store contains input records, which do not depend on the functions of its operator."""
        return "holds_input" in self._traits.get(self.stores[store]["operator"], {})

    def writers(self, store: str) -> list[str]:
        """Returns the operators that write a store: its owner, those that share it, processors that use it."""
        owner: str = self.stores[store]["operator"]
        others = [
            name
            for name, operator in self.operators.items()
            if store in operator["options"].get("uses", ()) or operator["options"].get("shared") == owner
        ]
        return [owner, *others]

    def above_stores(self) -> frozenset[str]:
        """Returns the operators that determine the contents of stores: those that write one, and all above them."""
        pending = [name for store in self.stores for name in self.writers(store)]
        above = set(pending)
        while pending:
            parents = [name for name in self.operators[pending.pop()]["parents"] if name not in above]
            above.update(parents)
            pending += parents
        return frozenset(above)

    def feeds(self, store: str) -> list[Plain]:
        """Returns the sources and repartitions whose records reach a store without another exchange."""
        return [self.operators[name] for name in self._nearest(self.writers(store), "reads_topic")]

    def groupings(self, store: str) -> list[Plain]:
        """Returns the options that determine the keys of a store's rows: of the nearest operators that change keys."""
        above = [parent for name in self.writers(store) for parent in self.operators[name]["parents"]]
        groupings: list[Plain] = []
        for name in self._nearest(above, "key_options", "groups"):
            options, key_options = self.operators[name]["options"], self._traits[name].get("key_options")
            if key_options is not None:
                groupings.append({option: options[option] for option in key_options if option in options})
        return groupings

    def _nearest(self, start: list[str], *traits: str) -> list[str]:
        """Returns the nearest operators with one of the traits, at or above others."""
        pending = list(start)
        seen = dict.fromkeys(pending)
        nearest = []
        while pending:
            name = pending.pop()
            if any(trait in self._traits.get(name, {}) for trait in traits):
                nearest.append(name)
                continue
            parents = self.operators[name]["parents"]
            pending += [parent for parent in parents if parent not in seen]
            seen.update(dict.fromkeys(parents))
        return nearest


def differing(before: Plain, after: Plain) -> list[str]:
    """Returns the options whose values differ."""
    return [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def certainly_differ(before: Any, after: Any) -> bool:
    """Whether two options differ in more than Python functions, which cannot be compared."""
    if is_callable(before) or is_callable(after):
        return False
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return any(certainly_differ(before.get(key), after.get(key)) for key in {*before, *after})
    if isinstance(before, list) and isinstance(after, list):
        return len(before) != len(after) or any(map(certainly_differ, before, after))
    return bool(before != after)


def is_callable(option: Any) -> bool:
    """Whether an option is a Python function."""
    return isinstance(option, Mapping) and option.get("callable") is True


def worded(before: Plain, after: Plain, of: str, ignored: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yields the differing options in words."""
    for key in differing(before, after):
        if key not in ignored:
            was, now = (spelled(key, side.get(key)) for side in (before, after))
            yield f"the {key} {of} was {was}, and is now {now}"


def spelled(key: str, value: Any) -> str:
    """Returns the value of an option in words."""
    if isinstance(value, int) and not isinstance(value, bool) and key in _TIMES:
        return show_ms(value)
    if is_callable(value):
        return "a Python function"
    if isinstance(value, Mapping):
        return f"`{from_dict(value)}`"
    return "none" if value is None else str(value)
