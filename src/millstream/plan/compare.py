"""Compares two topologies: which stores the new one can take over from the old one, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from millstream.plan.node import Plan
from millstream.plan.side import BEGIN_AGAIN, Plain, Side, differing
from millstream.plan.store_changes import changed_types, judge, serdes, shown_count

Status: TypeAlias = Literal["kept", "added", "lost", "incompatible", "removed", "changed"]
_SHOWN = 5


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
        keepable: The rows of an incompatible store could still be read: only what they mean has changed, and a
            migration can keep them as they are.
    """

    name: str
    status: Status
    operator: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remedy: str = ""
    keepable: bool = False


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
        functions: The Python functions that have changed, of operators that decide what is in stores. What the change
            means for the rows cannot be known.
    """

    stores: tuple[Change, ...]
    topics: tuple[Change, ...]
    operators: tuple[Change, ...]
    application_ids: tuple[str, str] = field(default=("", ""))
    checkpoint: tuple[Change, ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def changed_functions(self) -> str | None:
        """One line that names the Python functions that have changed; None if none has."""
        if not self.functions:
            return None
        names, more = ", ".join(self.functions[:_SHOWN]), len(self.functions) - _SHOWN
        beyond = f" and {more} more" if more > 0 else ""
        return f"Python functions changed; rows from before stay as they are: {names}{beyond}."

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


def compare(old: Plan | Plain, new: Plan | Plain) -> Comparison:
    """Compares two topologies, each a plan or what `millstream.plan.fingerprint.to_dict` made of one.

    A store is found again by its name. It is kept unless something is known to have changed that its rows depend on.
    Other keys, values, kinds, windows or aggregate functions, another number of partitions or another kind of operator
    make it incompatible. So do another grace, other fields of a type, another kind of join, and other expressions that
    rows are grouped by or computed from: the rows could still be read, and a migration can keep them. Retention, and
    stateless operators above the store, may change. Of Python functions only that they changed is known.

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
    before, after = Side(old), Side(new)
    changed = list(_changed_functions(before, after))
    stateful = after.above_stores()
    return Comparison(
        stores=tuple(_stores(before, after)),
        topics=tuple(_topics(before, after)),
        operators=tuple(_operators(before, after, changed)),
        application_ids=(before.application_id, after.application_id),
        functions=tuple(f"{name} ({place})" for name, _, place in changed if name in stateful),
    )


def _stores(old: Side, new: Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.stores, *old.stores]):
        if name not in new.stores:
            yield Change(name, "lost", old.stores[name]["operator"])
        elif name not in old.stores:
            yield Change(name, "added", new.stores[name]["operator"])
        else:
            yield _store(name, old, new)


def _store(name: str, old: Side, new: Side) -> Change:
    operator = new.stores[name]["operator"]
    verdict = judge(name, old, new)
    if not verdict.reasons and not verdict.meanings:
        return Change(name, "kept", operator, notes=verdict.notes)
    named, keepable = name in new.named, not verdict.reasons
    if named:
        remedy = f'give the new one another name (store="{name}-v2"), so that it begins empty; or {BEGIN_AGAIN}'
    else:
        remedy = (
            "let it begin empty: millstream migrate, which rebuilds named stores from their changelogs, or another "
            f'name for the operator (name="{operator}-v2"); or {BEGIN_AGAIN}'
        )
    if named and keepable:
        remedy = f"keep the rows from before as they are: millstream migrate --keep {name}; or {remedy}"
    reasons = (*verdict.reasons, *verdict.meanings)
    return Change(name, "incompatible", operator, reasons, remedy=remedy, keepable=named and keepable)


def _topics(old: Side, new: Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.topics, *old.topics]):
        before, after = old.topics.get(name), new.topics.get(name)
        if before is None or after is None:
            found = before or after or {}
            yield Change(name, "lost" if after is None else "added", found["operator"])
            continue
        reasons = [*serdes(before, after), *changed_types(before, after)]
        if before.get("changes", False) != after.get("changes", False):
            words = ("records of a stream", "changes of a table")
            was, now = before.get("changes", False), after.get("changes", False)
            reasons.append(f"it carried {words[was]}, and now carries {words[now]}")
        if before.get("partitions") != after.get("partitions"):
            was, now = before.get("partitions"), after.get("partitions")
            reasons.append(f"it had {shown_count(was)}, and now has {shown_count(now)}")
        remedy = (
            f'give the new one another name (name="{name}-v2") when the old one has been read to its end; or '
            f"{BEGIN_AGAIN}"
        )
        status: Status = "incompatible" if reasons else "kept"
        yield Change(name, status, after["operator"], tuple(reasons), remedy=remedy if reasons else "")


def _operators(old: Side, new: Side, functions: list[tuple[str, str, str]]) -> Iterator[Change]:
    for name in dict.fromkeys([*new.operators, *old.operators]):
        before, after = old.operators.get(name), new.operators.get(name)
        if before is None or after is None:
            yield Change(name, "removed" if after is None else "added", name, notes=((before or after or {})["kind"],))
        else:
            top = [key for key in ("kind", "parents") if before[key] != after[key]]
            code = [f"code of {option}" for operator, option, _ in functions if operator == name]
            reasons = (*top, *differing(before["options"], after["options"]), *code)
            yield Change(name, "changed" if reasons else "kept", name, reasons)


def _changed_functions(old: Side, new: Side) -> Iterator[tuple[str, str, str]]:
    """Operator, option and place of functions whose code has changed. Each version of Python compiles differently."""
    if old.functions["python"] != new.functions["python"]:
        return
    for name, functions in new.functions["operators"].items():
        before = old.functions["operators"].get(name, {})
        for option, (digest, place) in functions.items():
            if option in before and before[option][0] != digest:
                yield name, option, place


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
    if found.changed_functions is not None:
        yield found.changed_functions
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
