"""Compares two topologies: which stores the new one can take over from the old one, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from millstream.durations import show_ms
from millstream.errors import TopologyError
from millstream.plan.fingerprint import FORMAT, to_dict
from millstream.plan.node import Plan

Status: TypeAlias = Literal["kept", "added", "lost", "incompatible", "removed", "changed"]
_Plain: TypeAlias = Mapping[str, Any]

BEGIN_AGAIN = "begin again from the input: millstream reset; or give the application a new application id"
"""What always helps."""

# These fields of a window say when it closes; all others decide which rows there are.
_WINDOW_NOTES = frozenset({"grace", "idle", "eager"})
_TIMES = frozenset({"size", "advance", "difference", "gap", "before", "after", "grace", "idle"})
_ROWS = {
    "timestamped": ("rows without a timestamp", "rows with a timestamp"),
    "duplicates": ("one row for each key and time", "several rows for each key and time"),
    "held": ("windows that come out with every update", "windows that come out when they close"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a store, a repartition topic, an operator or the checkpoint.

    Attributes:
        name: Its name.
        status: ``kept``, ``added``, ``lost`` or ``incompatible``; an operator is ``kept``, ``added``, ``removed`` or
            ``changed``.
        operator: The operator that it belongs to, in the new topology if it is there.
        reasons: Why it is incompatible, or what of the operator has changed.
        notes: What else is worth knowing of one that is kept.
        remedy: What can be done about it, if it is incompatible.
    """

    name: str
    status: Status
    operator: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a change of topology means for the state of the application; ``str()`` gives it as text.

    Attributes:
        stores: Every store of either topology, by name.
        topics: Every repartition topic of either topology, by the name between the application's id and
            ``-repartition``.
        operators: Every operator of either topology.
        application_ids: The ids of the old and the new application.
        checkpoint: The checkpoint of the application, if the new topology cannot use it. Plans do not tell: whoever
            knows the checkpoint puts it here.
    """

    stores: tuple[Change, ...]
    topics: tuple[Change, ...]
    operators: tuple[Change, ...]
    application_ids: tuple[str, str] = field(default=("", ""))
    checkpoint: tuple[Change, ...] = ()

    @property
    def compatible(self) -> bool:
        """Whether the new topology can go on with the state of the old one.

        That is so if no store, no repartition topic and no checkpoint is incompatible. Stores that are lost do not
        stand in the way.
        """
        return not any(change.status == "incompatible" for change in (*self.stores, *self.topics, *self.checkpoint))

    def names(self, status: Status) -> list[str]:
        """The names of the stores of which this becomes."""
        return [change.name for change in self.stores if change.status == status]

    def __str__(self) -> str:
        return "\n".join(_report(self))


def compare(old: Plan | _Plain, new: Plan | _Plain) -> Comparison:
    """Compares two topologies, each a plan or what `millstream.plan.fingerprint.to_dict` made of one.

    A store is found again by its name. It is kept if its rows are what the new topology would have written: growing or
    shrinking retention and grace is fine, and so is any change of functions and of stateless operators. Other keys,
    values, kinds or windows, another number of partitions or another kind of operator make it incompatible.

    >>> from millstream import App
    >>> def counts(key: type, shop: str = "shop") -> App:
    ...     app = App("sales")
    ...     orders = app.stream("orders", key=key).filter(lambda order: order[shop])
    ...     orders.group_by_key().count(store="counts").to_stream().to("totals")
    ...     return app
    >>> compare(counts(str).plan(), counts(str, "place").plan()).names("kept")
    ['counts']
    >>> print(compare(counts(str).plan(), counts(int).plan()))
    Not compatible: the new topology cannot go on with the state of the old one.
    <BLANKLINE>
    Stores
      counts (of orders-count): incompatible
        - its keys were string, and are now long
        remedy: give the new one another name (store="counts-v2"), so that it begins empty; or begin
          again from the input: millstream reset; or give the application a new application id
    <BLANKLINE>
    Operators
      orders-source: changed (key)
      totals-sink: changed (key)

    Args:
        old: The topology whose state there is.
        new: The topology that is to take it over.

    Raises:
        TopologyError: A stored topology has a format that this version does not know.
    """
    before, after = _Side(old), _Side(new)
    return Comparison(
        stores=tuple(_stores(before, after)),
        topics=tuple(_topics(before, after)),
        operators=tuple(_operators(before, after)),
        application_ids=(before.application_id, after.application_id),
    )


class _Side:
    """One of the two topologies, as plain data."""

    def __init__(self, plan: Plan | _Plain) -> None:
        data = to_dict(plan) if isinstance(plan, Plan) else plan
        if data.get("format") != FORMAT:
            raise TopologyError(
                f"a stored topology has format {data.get('format')!r}, and this version reads {FORMAT}",
                hint=f"it was written by another version of Millstream: use that one; or {BEGIN_AGAIN}",
            )
        self.application_id: str = data["application_id"]
        self.operators: dict[str, _Plain] = data["operators"]
        self.stores: dict[str, _Plain] = data["stores"]
        self.named = (
            {spec.name for node in plan.nodes for spec in node.stores if spec.named}
            if isinstance(plan, Plan)
            else {name for name, store in self.stores.items() if not name.startswith(store["operator"])}
        )
        self.topics = {
            operator["options"]["topic"]: {**operator["options"], "operator": name}
            for name, operator in self.operators.items()
            if operator["kind"] == "repartition"
        }

    def owner(self, store: str) -> _Plain:
        """The operator that a store belongs to."""
        return self.operators[self.stores[store]["operator"]]

    def feeds(self, store: str) -> list[_Plain]:
        """The sources and repartitions whose records reach a store directly."""
        owner = self.stores[store]["operator"]
        pending = [owner]
        for name, operator in self.operators.items():
            if store in operator["options"].get("uses", ()) or operator["options"].get("shared") == owner:
                pending.append(name)
        seen = dict.fromkeys(pending)
        found = []
        while pending:
            operator = self.operators[pending.pop()]
            if operator["kind"] in {"source", "repartition", "global-table"}:
                found.append(operator)
                continue
            pending += [parent for parent in operator["parents"] if parent not in seen]
            seen.update(dict.fromkeys(operator["parents"]))
        return found


# ----- stores ----------------------------------------------------------------------------------------------------


def _stores(old: _Side, new: _Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.stores, *old.stores]):
        if name not in new.stores:
            yield Change(name, "lost", old.stores[name]["operator"])
        elif name not in old.stores:
            yield Change(name, "added", new.stores[name]["operator"])
        else:
            yield _store(name, old, new)


def _store(name: str, old: _Side, new: _Side) -> Change:
    operator = new.stores[name]["operator"]
    checks: tuple[Callable[[str, _Side, _Side], Iterator[str]], ...] = (_rows, _windows, _owners, _partitions)
    reasons = tuple(reason for check in checks for reason in check(name, old, new))
    if reasons:
        if name in new.named:
            remedy = f'give the new one another name (store="{name}-v2"), so that it begins empty; or {BEGIN_AGAIN}'
        else:
            remedy = (
                "let it begin empty: millstream migrate, which rebuilds named stores from their changelogs, or another "
                f'name for the operator (name="{operator}-v2"); or {BEGIN_AGAIN}'
            )
        return Change(name, "incompatible", operator, reasons, remedy=remedy)
    return Change(name, "kept", operator, notes=tuple(_notes(name, old, new)))


def _rows(name: str, old: _Side, new: _Side) -> Iterator[str]:
    """What the rows are."""
    before, after = old.stores[name], new.stores[name]
    if before["kind"] != after["kind"]:
        yield f"it was a {before['kind']} store, and is now a {after['kind']} store"
    yield from _serdes(before, after)
    for key, words in _ROWS.items():
        was, now = before.get(key, False), after.get(key, False)
        if was != now and before["kind"] == after["kind"]:
            yield f"it had {words[was]}, and now has {words[now]}"


def _serdes(before: _Plain, after: _Plain) -> Iterator[str]:
    for part in ("key", "value"):
        if before[part] != after[part]:
            yield f"its {part}s were {before[part]}, and are now {after[part]}"


def _windows(name: str, old: _Side, new: _Side) -> Iterator[str]:
    """Which windows the rows are of."""
    before, after = old.owner(name)["options"].get("window"), new.owner(name)["options"].get("window")
    if before is None or after is None:
        was, now = old.stores[name].get("window_size_ms"), new.stores[name].get("window_size_ms")
        if was != now and None not in {was, now}:
            yield f"the size of its windows was {_spelled('size', was)}, and is now {_spelled('size', now)}"
    elif before["type"] != after["type"]:
        yield f"it had {before['type']}s, and now has {after['type']}s"
    else:
        yield from _fields(before, after, "of its windows", aside=_WINDOW_NOTES)


def _owners(name: str, old: _Side, new: _Side) -> Iterator[str]:
    """What the rows mean to the operator that they belong to."""
    before, after = old.owner(name), new.owner(name)
    was, now = _work(before), _work(after)
    if was != now:
        yield f"it belonged to an operator of kind {was}, and now belongs to one of kind {now}"
    elif before["options"].get("until") != after["options"].get("until"):
        waits = {"window_closes": "until their window closes", "time_limit": "for a time"}
        was, now = (waits[side["options"]["until"]] for side in (before, after))
        yield f"its rows waited {was}, and now wait {now}"


def _work(operator: _Plain) -> str:
    """The kind of an operator; of an aggregate also whether it counts, reduces or aggregates."""
    aggregation = operator["options"].get("aggregation")
    return f"{operator['kind']}" if aggregation is None else f"{operator['kind']} ({aggregation['kind']})"


def _partitions(name: str, old: _Side, new: _Side) -> Iterator[str]:
    """In which partition a row is."""
    before, after = old.feeds(name), new.feeds(name)
    was, now = (_count(side) for side in (before, after))
    if was != now:
        yield f"its rows were dealt to {_shown(was)}, and now to {_shown(now)}"
    own = [any("partitioner" in feed["options"] for feed in side) for side in (before, after)]
    if own[0] != own[1]:
        words = ("by the bytes of their keys", "by a function of the user's")
        yield f"its rows were dealt to partitions {words[own[0]]}, and now {words[own[1]]}"


def _count(feeds: list[_Plain]) -> int | None:
    """How many partitions a user asked for; None if there are as many as the input has."""
    return max((feed["options"].get("partitions") or 0 for feed in feeds), default=0) or None


def _shown(count: int | None) -> str:
    return "as many partitions as the input has" if count is None else f"{count} partitions"


def _notes(name: str, old: _Side, new: _Side) -> Iterator[str]:
    """What has changed around a store that is kept."""
    before, after = old.stores[name], new.stores[name]
    if before["operator"] != after["operator"]:
        yield f"it belonged to {before['operator']}, and now belongs to {after['operator']}"
    was, now = before.get("retention_ms"), after.get("retention_ms")
    if was != now:
        yield f"retention was {_spelled('grace', was)}, and is now {_spelled('grace', now)}"
    if before.get("logged", True) != after.get("logged", True):
        yield (
            "it now has a changelog, without the rows from before" if after.get("logged", True) else "no changelog now"
        )
    if before.get("viewed", True) != after.get("viewed", True):
        yield (
            "it can be queried now, but shows only the rows that change from now on"
            if after.get("viewed", True)
            else "it cannot be queried any more"
        )
    fed, feeds = ({_feed(feed) for feed in side.feeds(name)} for side in (old, new))
    if fed != feeds:
        yield f"it was fed by {', '.join(sorted(fed))}, and is now fed by {', '.join(sorted(feeds))}"
    options = old.owner(name)["options"], new.owner(name)["options"]
    windows = [side.get("window") or {} for side in options]
    yield from _fields(windows[0], windows[1], "of its windows")
    changed = [key for key in _differing(*options) if key not in {"window", "reuse_source", "source_topic"}]
    if changed:
        yield f"{', '.join(changed)} of its operator changed; rows from before stay as they are"


def _feed(operator: _Plain) -> str:
    options = operator["options"]
    if operator["kind"] == "repartition":
        return f"{options['topic']}-repartition"
    return ", ".join(options.get("topics", ())) or str(options.get("pattern") or options.get("topic"))


# ----- topics and operators --------------------------------------------------------------------------------------


def _topics(old: _Side, new: _Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.topics, *old.topics]):
        before, after = old.topics.get(name), new.topics.get(name)
        if before is None or after is None:
            found = before or after or {}
            yield Change(name, "lost" if after is None else "added", found["operator"])
            continue
        reasons = [*_serdes(before, after)]
        if before.get("changes", False) != after.get("changes", False):
            words = ("records of a stream", "changes of a table")
            was, now = before.get("changes", False), after.get("changes", False)
            reasons.append(f"it carried {words[was]}, and now carries {words[now]}")
        if before.get("partitions") != after.get("partitions"):
            was, now = before.get("partitions"), after.get("partitions")
            reasons.append(f"it had {_shown(was)}, and now has {_shown(now)}")
        remedy = (
            f'give the new one another name (name="{name}-v2") when the old one has been read to its end; or '
            f"{BEGIN_AGAIN}"
        )
        status: Status = "incompatible" if reasons else "kept"
        yield Change(name, status, after["operator"], tuple(reasons), remedy=remedy if reasons else "")


def _operators(old: _Side, new: _Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.operators, *old.operators]):
        before, after = old.operators.get(name), new.operators.get(name)
        if before is None or after is None:
            yield Change(name, "removed" if after is None else "added", name, notes=((before or after or {})["kind"],))
        else:
            top = [key for key in ("kind", "parents") if before[key] != after[key]]
            reasons = (*top, *_differing(before["options"], after["options"]))
            yield Change(name, "changed" if reasons else "kept", name, reasons)


def _differing(before: _Plain, after: _Plain) -> list[str]:
    return [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def _fields(before: _Plain, after: _Plain, of: str, aside: frozenset[str] = frozenset()) -> Iterator[str]:
    for key in _differing(before, after):
        if key not in aside:
            was, now = (_spelled(key, side.get(key)) for side in (before, after))
            yield f"the {key} {of} was {was}, and is now {now}"


def _spelled(key: str, value: Any) -> str:
    if isinstance(value, int) and key in _TIMES:
        return show_ms(value)
    return "none" if value is None else str(value)


# ----- the report ------------------------------------------------------------------------------------------------

_MEANING = {
    "added": "added, begins empty",
    "lost": "lost, nothing uses what is in it any more",
}


def _report(found: Comparison) -> Iterator[str]:
    if not found.compatible:
        yield "Not compatible: the new topology cannot go on with the state of the old one."
    elif lost := found.names("lost"):
        yield f"Compatible, but what is in these stores is lost: {', '.join(lost)}."
    else:
        yield "Compatible: the new topology can go on with the state of the old one."
    old, new = found.application_ids
    if old != new:
        yield f"The application ids differ ({old}, {new}): state is found under the id, so nothing is taken over."
    parts = (("Checkpoint", found.checkpoint), ("Stores", found.stores), ("Repartition topics", found.topics))
    for title, changes in parts:
        if changes:
            yield from ("", title)
        for change in changes:
            owner = f" (of {change.operator})" if change.operator else ""
            yield f"  {change.name}{owner}: {_MEANING.get(change.status, change.status)}"
            yield from (f"    - {line}" for line in (*change.reasons, *change.notes))
            if change.remedy:
                yield from _wrapped(f"remedy: {change.remedy}")
    edited = [change for change in found.operators if change.status != "kept"]
    if edited:
        yield from ("", "Operators")
    for change in edited:
        yield f"  {change.name}: {change.status} ({', '.join(change.reasons or change.notes)})"


def _wrapped(text: str) -> list[str]:
    import textwrap  # noqa: PLC0415  (few programs ask)

    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False)
