"""Compares two topologies: which stores the new one can take over, and why it cannot take over the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from millstream.plan.node import Plan
from millstream.plan.schemas import FORMER_SCHEMA, key_schema_changed, schema_changes
from millstream.plan.side import BEGIN_AGAIN, Plain, Side, differing
from millstream.plan.store_changes import changed_types, judge, serdes, shown_count, unreadable

Status: TypeAlias = Literal["kept", "added", "lost", "incompatible", "removed", "changed"]
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of a changed topology on a store, a repartition topic, an operator or the checkpoint.

    Attributes:
        name: Its name.
        status: ``kept``, ``added``, ``lost`` or ``incompatible``; an operator is ``kept``, ``added``, ``removed`` or
            ``changed``.
        operator: The operator that it belongs to, in the new topology if it is there.
        reasons: Why it is incompatible, or the changes of the operator.
        notes: Changes that do not affect the state.
        remedy: How to resolve an incompatibility.
        keepable: The rows of an incompatible store can still be read: only their meaning changed, and a migration can
            keep them as they are.
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
    """The effect of a changed topology on the state of the application; ``str()`` returns it as text.

    Attributes:
        stores: Every store of either topology, by name.
        topics: Every repartition topic of either topology, by the name between the application id and
            ``-repartition``.
        outputs: Every output topic whose keys would have another schema.
        operators: Every operator of either topology.
        definitions: Every stream, table, type and query of SQL of either topology, with a status as operators have.
        application_ids: The ids of the old and the new application.
        checkpoint: The checkpoint of the application, if the new topology cannot use it; filled in by the caller,
            because plans do not contain it.
        functions: The changed Python functions of operators that determine the contents of stores. The effect on the
            rows is unknown.
    """

    stores: tuple[Change, ...]
    topics: tuple[Change, ...]
    operators: tuple[Change, ...]
    application_ids: tuple[str, str] = field(default=("", ""))
    checkpoint: tuple[Change, ...] = ()
    functions: tuple[str, ...] = ()
    outputs: tuple[Change, ...] = ()
    definitions: tuple[Change, ...] = ()

    @property
    def changed_functions(self) -> str | None:
        """One line that names the changed Python functions; None if there are none."""
        if not self.functions:
            return None
        names, more = ", ".join(self.functions[:_SHOWN]), len(self.functions) - _SHOWN
        beyond = f" and {more} more" if more > 0 else ""
        return f"Python functions changed; rows from before stay as they are: {names}{beyond}."

    @property
    def compatible(self) -> bool:
        """Whether the new topology can continue with the state of the old one.

        It can if no store, no topic and no checkpoint is incompatible. Lost stores do not prevent it.
        """
        changes = (*self.stores, *self.topics, *self.outputs, *self.checkpoint)
        return not any(change.status == "incompatible" for change in changes)

    def names(self, status: Status) -> list[str]:
        """The names of the stores with a status."""
        return [change.name for change in self.stores if change.status == status]

    def __str__(self) -> str:
        return "\n".join(_report(self))


def compare(old: Plan | Plain, new: Plan | Plain) -> Comparison:
    """Compares two topologies, each a plan or the result of `millstream.plan.fingerprint.to_dict`.

    Stores are matched by name. A store is kept unless its rows depend on something that certainly changed.
    Other keys, values, kinds, windows or aggregate functions, another number of partitions or another kind of operator
    make it incompatible. So do another grace, other fields of a type, another kind of join, and other expressions that
    rows are grouped by or computed from: these rows can still be read, and a migration can keep them. Retention, and
    stateless operators above the store, may change. Python functions are compared by their code only.

    >>> from millstream import App
    >>> def counts(key: type, shop: str = "shop") -> App:
    ...     app = App("sales")
    ...     orders = app.stream("orders", key=key).filter(lambda order: order[shop])
    ...     orders.group_by_key().count(store="counts").to_stream().to("totals")
    ...     return app
    >>> compare(counts(str).plan(), counts(str, "place").plan()).names("kept")
    ['counts']
    >>> print(compare(counts(str).plan(), counts(int).plan()))
    Not compatible: the new topology cannot continue with the state of the old one.
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
        old: The topology that the state belongs to.
        new: The topology that takes the state over.

    Raises:
        TopologyError: A stored topology has a format that this version does not read.
    """
    before, after = Side(old), Side(new)
    changed = list(_changed_functions(before, after))
    stateful = after.above_stores()
    return Comparison(
        stores=tuple(_stores(before, after)),
        topics=tuple(_topics(before, after)),
        outputs=tuple(_outputs(before, after)),
        operators=tuple(_operators(before, after, changed)),
        definitions=tuple(_definitions(before, after)),
        application_ids=(before.application_id, after.application_id),
        functions=tuple(f"{name} ({location})" for name, _, location in changed if name in stateful),
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
    if key_schema_changed(old.stores[name], new.stores[name]):
        remedy = f"{FORMER_SCHEMA}; or {remedy}"
    if named and keepable:
        remedy = f"keep the rows from before as they are: millstream migrate --keep {name}; or {remedy}"
    reasons = (*verdict.reasons, *verdict.meanings)
    return Change(name, "incompatible", operator, reasons, remedy=remedy, keepable=named and keepable)


def _topics(old: Side, new: Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.topics, *old.topics]):
        before, after = old.topics.get(name), new.topics.get(name)
        if before is None or after is None:
            topic = before or after or {}
            yield Change(name, "lost" if after is None else "added", topic["operator"])
            continue
        reasons = [*serdes(before, after), *changed_types(before, after), *unreadable(before, after)]
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
        if key_schema_changed(before, after):
            remedy = f"{FORMER_SCHEMA}; or {remedy}"
        status: Status = "incompatible" if reasons else "kept"
        yield Change(name, status, after["operator"], tuple(reasons), remedy=remedy if reasons else "")


def _outputs(old: Side, new: Side) -> Iterator[Change]:
    former = {operator["options"].get("topic"): operator["options"] for operator in old.operators.values()}
    for name, operator in new.operators.items():
        options = operator["options"]
        topic = options.get("topic")
        if operator["kind"] != "sink" or not isinstance(topic, str) or topic not in former:
            continue
        reasons = tuple(text for _, text in schema_changes(former[topic], options, "key"))
        if reasons:
            remedy = f"{FORMER_SCHEMA}; or write to another topic; or {BEGIN_AGAIN}"
            yield Change(topic, "incompatible", name, reasons, remedy=remedy)


def _operators(old: Side, new: Side, functions: list[tuple[str, str, str]]) -> Iterator[Change]:
    for name in dict.fromkeys([*new.operators, *old.operators]):
        before, after = old.operators.get(name), new.operators.get(name)
        if before is None or after is None:
            yield Change(name, "removed" if after is None else "added", name, notes=((before or after or {})["kind"],))
        else:
            top = [key for key in ("kind", "parents") if before[key] != after[key]]
            code = [f"code of {option}" for operator, option, _ in functions if operator == name]
            contract = ["contract"] if old.contracts.get(name) != new.contracts.get(name) else []
            reasons = (*top, *differing(before["options"], after["options"]), *contract, *code)
            yield Change(name, "changed" if reasons else "kept", name, reasons)


def _definitions(old: Side, new: Side) -> Iterator[Change]:
    for name in dict.fromkeys([*new.definitions, *old.definitions]):
        before, after = old.definitions.get(name), new.definitions.get(name)
        if before is None or after is None:
            yield Change(name, "removed" if after is None else "added", "")
        else:
            reasons = tuple(differing(before, after))
            yield Change(name, "changed" if reasons else "kept", "", reasons)


def _changed_functions(old: Side, new: Side) -> Iterator[tuple[str, str, str]]:
    """Yields operator, option and location of changed functions. Versions of Python compile to different code."""
    if old.functions["python"] != new.functions["python"]:
        return
    for name, functions in new.functions["operators"].items():
        before = old.functions["operators"].get(name, {})
        for option, (digest, location) in functions.items():
            if option in before and before[option][0] != digest:
                yield name, option, location


# ----- the report ------------------------------------------------------------------------------------------------

_MEANING = {
    "added": "added, begins empty",
    "lost": "lost, no operator uses its contents any more",
}


def _report(comparison: Comparison) -> Iterator[str]:
    if not comparison.compatible:
        yield "Not compatible: the new topology cannot continue with the state of the old one."
    elif lost := comparison.names("lost"):
        yield f"Compatible, but the contents of these stores are lost: {', '.join(lost)}."
    else:
        yield "Compatible: the new topology can continue with the state of the old one."
    if comparison.changed_functions is not None:
        yield comparison.changed_functions
    old, new = comparison.application_ids
    if old != new:
        yield f"The application ids differ ({old}, {new}): state is found under the id, so nothing is taken over."
    parts = (
        ("Checkpoint", comparison.checkpoint),
        ("Stores", comparison.stores),
        ("Repartition topics", comparison.topics),
        ("Output topics", comparison.outputs),
    )
    for title, changes in parts:
        if changes:
            yield from ("", title)
        for change in changes:
            owner = f" (of {change.operator})" if change.operator else ""
            yield f"  {change.name}{owner}: {_MEANING.get(change.status, change.status)}"
            yield from (f"    - {line}" for line in (*change.reasons, *change.notes))
            if change.remedy:
                yield from _wrapped(f"remedy: {change.remedy}")
    for title, changes in (("SQL", comparison.definitions), ("Operators", comparison.operators)):
        edited = [change for change in changes if change.status != "kept"]
        if edited:
            yield from ("", title)
        for change in edited:
            details = ", ".join(change.reasons or change.notes)
            yield f"  {change.name}: {change.status}" + (f" ({details})" if details else "")


def _wrapped(text: str) -> list[str]:
    import textwrap  # noqa: PLC0415  (rarely needed)

    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False)
