"""The effect of a changed topology on a store: on its rows, their meaning, and their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from millstream.plan.schemas import schema_changes
from millstream.plan.shapes import differences
from millstream.plan.side import Plain, Side, certainly_differ, differing, is_callable, spelled, worded

# These fields of a window determine when it emits; all others determine its rows and their contents.
_WINDOW_NOTES = frozenset({"idle", "eager"})
_ROWS = {
    "timestamped": ("rows without a timestamp", "rows with a timestamp"),
    "duplicates": ("one row for each key and time", "several rows for each key and time"),
    "held": ("windows that are emitted with every update", "windows that are emitted when they close"),
}
# Options of an operator that determine the contents of its store.
_MEANING = ("how", "predicate", "negate", "function", "joiner", "grace")
_NOT_NOTED = frozenset({"window", "reuse_source", "source_topic", "key_schemas"})


class Verdict(NamedTuple):
    """The result of comparing a store that both topologies have.

    Attributes:
        reasons: Why the new topology cannot use the rows.
        meanings: How the meaning of the rows changed, although they can still be read.
        notes: Other changes.
    """

    reasons: tuple[str, ...]
    meanings: tuple[str, ...]
    notes: tuple[str, ...]


def judge(name: str, old: Side, new: Side) -> Verdict:
    """Compares a store of two topologies."""
    checks = (_rows, _windows, _owners, _aggregates, _partitions)
    types = [*_types(old.stores[name], new.stores[name])]
    return Verdict(
        reasons=tuple(reason for check in checks for reason in check(name, old, new)),
        meanings=(*(text for harmful, text in types if harmful), *_meanings(name, old, new)),
        notes=(*(text for harmful, text in types if not harmful), *_notes(name, old, new)),
    )


# ----- rows ----------------------------------------------------------------------------------------------------------


def _rows(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences in the format of the rows."""
    before, after = old.stores[name], new.stores[name]
    if before["kind"] != after["kind"]:
        yield f"it was a {before['kind']} store, and is now a {after['kind']} store"
    yield from serdes(before, after)
    yield from unreadable(before, after)
    yield from _written_keys(name, old, new)
    for key, words in _ROWS.items():
        was, now = before.get(key, False), after.get(key, False)
        if was != now and before["kind"] == after["kind"]:
            yield f"it had {words[was]}, and now has {words[now]}"


def serdes(before: Plain, after: Plain) -> Iterator[str]:
    """Yields differences between the serdes of keys and values."""
    for part in ("key", "value"):
        if before[part] != after[part]:
            yield f"its {part}s were {before[part]}, and are now {after[part]}"


def _types(before: Plain, after: Plain) -> Iterator[tuple[bool, str]]:
    """Yields differences between typed keys or values: whether old rows lose their meaning, and the difference."""
    for part in ("key", "value"):
        was, now = before.get(f"{part}_type"), after.get(f"{part}_type")
        if before[part] != after[part] or was == now or f"{part}_schemas" in after:
            continue
        if was is None or now is None:
            yield False, f"its {part}s {'have' if was is None else 'had'} a type {'now' if was is None else 'before'}"
            continue
        for harmful, text in differences(was, now):
            yield harmful, f"the type of its {part}s changed: {text}"


def unreadable(before: Plain, after: Plain) -> Iterator[str]:
    """Yields changes of schemas by which data from before cannot be used."""
    for part in ("key", "value"):
        if before[part] == after[part]:
            yield from (text for harmful, text in schema_changes(before, after, part) if harmful)


def _written_keys(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields changes of keys whose bytes are in the rows of a store, although its own keys may be others."""
    known = {*unreadable(old.stores[name], new.stores[name])}
    for writer in new.writers(name):
        if writer in old.operators:
            options = old.operators[writer]["options"], new.operators[writer]["options"]
            yield from (text for _, text in schema_changes(*options, "key") if text not in known)


def _evolved(before: Plain, after: Plain) -> Iterator[str]:
    """Yields changes of schemas with which data from before can be read."""
    for part in ("key", "value"):
        yield from (text for harmful, text in schema_changes(before, after, part) if not harmful)


def changed_types(before: Plain, after: Plain) -> Iterator[str]:
    """Yields differences between typed keys or values by which old data loses its meaning."""
    return (text for harmful, text in _types(before, after) if harmful)


def _windows(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences between the windows of the rows."""
    before, after = old.owner(name)["options"].get("window"), new.owner(name)["options"].get("window")
    if before is None or after is None:
        was, now = old.stores[name].get("window_size_ms"), new.stores[name].get("window_size_ms")
        if was != now and None not in {was, now}:
            yield f"the size of its windows was {spelled('size', was)}, and is now {spelled('size', now)}"
    elif before["type"] != after["type"]:
        yield f"it had {before['type']}s, and now has {after['type']}s"
    else:
        yield from worded(before, after, "of its windows", ignored=_WINDOW_NOTES | {"grace"})


# ----- operators -----------------------------------------------------------------------------------------------------


def _owners(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences between the operators that own the rows."""
    before, after = old.owner(name), new.owner(name)
    if before["kind"] != after["kind"]:
        was, now = (_work(operator) for operator in (before, after))
        yield f"it belonged to an operator of kind {was}, and now belongs to one of kind {now}"
    elif before["options"].get("until") != after["options"].get("until"):
        waits = {"window_closes": "until their window closes", "time_limit": "for a time"}
        was, now = (waits[side["options"]["until"]] for side in (before, after))
        yield f"its rows waited {was}, and now wait {now}"


def _work(operator: Plain) -> str:
    """Returns the kind of an operator, and the computation of an aggregate."""
    aggregation = operator["options"].get("aggregation")
    return f"{operator['kind']}" if aggregation is None else f"{operator['kind']} ({_aggregate(aggregation)})"


def _aggregate(aggregation: Plain) -> str:
    if aggregation["kind"] != "functions":
        return str(aggregation["kind"])
    calls = [_call(call) for call in aggregation["functions"]]
    fields = aggregation.get("fields", ())
    return ", ".join(f"{field}={call}" for field, call in zip(fields, calls, strict=True)) if fields else calls[0]


def _call(call: Plain) -> str:
    of = [] if "of" not in call else [spelled("of", call["of"]).strip("`")]
    options = [f"{name}={spelled(name, option)}" for name, option in call.get("options", ())]
    return f"{call['function']}({', '.join([*of, *options])})"


def _aggregates(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences between aggregate functions. Other functions compute other rows, even of the same format."""
    before, after = (side.owner(name)["options"].get("aggregation") for side in (old, new))
    if before is None or after is None or old.owner(name)["kind"] != new.owner(name)["kind"]:
        return
    if _functions(before) != _functions(after):
        yield f"its rows were {_aggregate(before)}, and are now {_aggregate(after)}"


def _functions(aggregation: Plain) -> Any:
    """Returns the functions of an aggregation, without the values that they aggregate."""
    calls = [
        (call["function"], [option for option in call.get("options", ()) if not is_callable(option[1])])
        for call in aggregation.get("functions", ())
    ]
    return aggregation["kind"], calls, aggregation.get("fields", [])


# ----- meaning -------------------------------------------------------------------------------------------------------


def _meanings(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields certain differences in the computation of the rows."""
    yield from _grouping(name, old, new)
    yield from _processors(name, old, new)
    before, after = old.owner(name), new.owner(name)
    if before["kind"] != after["kind"]:
        return
    was, now = before["options"], after["options"]
    for option in _MEANING:
        irrelevant = option == "joiner" and old.holds_input(name)
        if not irrelevant and certainly_differ(was.get(option), now.get(option)):
            texts = [spelled(option, side.get(option)) for side in (was, now)]
            label = "kind" if option == "how" else option
            yield f"the {label} of its operator was {texts[0]}, and is now {texts[1]}"
    windows = [side.get("window") or {} for side in (was, now)]
    if all(windows) and windows[0].get("grace") != windows[1].get("grace"):
        graces = [spelled("grace", window.get("grace")) for window in windows]
        yield f"the grace of its windows was {graces[0]}, and is now {graces[1]}"
    computed, computes = (side.get("aggregation") for side in (was, now))
    if (
        computed is not None
        and computes is not None
        and _functions(computed) == _functions(computes)
        and certainly_differ(computed, computes)
    ):
        yield f"its rows were {_details(computed)}, and are now {_details(computes)}"


def _details(aggregation: Plain) -> str:
    if aggregation["kind"] == "functions":
        return _aggregate(aggregation)
    parts = [
        f"{part} {spelled(part, aggregation[part])}"
        for part in ("init", "add", "subtract", "merge")
        if part in aggregation
    ]
    return f"{aggregation['kind']} with {', '.join(parts)}"


def _processors(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences between the functions of built-in processors."""
    for writer in new.writers(name)[1:]:
        if writer not in old.operators:
            continue
        was, now = (side.operators[writer]["options"].get("function") for side in (old, new))
        if certainly_differ(was, now):
            texts = [spelled("function", function) for function in (was, now)]
            yield f"the function of {writer} was {texts[0]}, and is now {texts[1]}"


def _grouping(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences between the keys that the rows are grouped by."""
    before, after = old.groupings(name), new.groupings(name)
    groupings = (*before, *after)
    if any(is_callable(option) for grouping in groupings for option in grouping.values()):
        return
    was, now = (sorted({_key(grouping) for grouping in side}) for side in (before, after))
    if was != now:
        yield f"its rows were grouped by {' and '.join(was) or _OWN_KEY}, and now by {' and '.join(now) or _OWN_KEY}"


_OWN_KEY = "the key of the records"


def _key(grouping: Plain) -> str:
    how = f" ({grouping['how']} join)" if "how" in grouping else ""
    function = next((option for name, option in grouping.items() if name != "how"), None)
    return f"{spelled('function', function)}{how}"


# ----- partitions and notes ------------------------------------------------------------------------------------------


def _partitions(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields differences in the partitioning of the rows."""
    before, after = old.feeds(name), new.feeds(name)
    was, now = (_count(side) for side in (before, after))
    if was != now:
        yield f"its rows were in {shown_count(was)}, and are now in {shown_count(now)}"
    own = [any("partitioner" in feed["options"] for feed in side) for side in (before, after)]
    if own[0] != own[1]:
        words = ("by the bytes of their keys", "by a function of the user's")
        yield f"its rows were partitioned {words[own[0]]}, and are now partitioned {words[own[1]]}"


def _count(feeds: list[Plain]) -> int | None:
    """Returns the number of partitions that the user gave; None if it is the number of the input."""
    return max((feed["options"].get("partitions") or 0 for feed in feeds), default=0) or None


def shown_count(count: int | None) -> str:
    """Returns a number of partitions in words."""
    return "as many partitions as the input has" if count is None else f"{count} partitions"


def _notes(name: str, old: Side, new: Side) -> Iterator[str]:
    """Yields changes that do not affect the rows."""
    before, after = old.stores[name], new.stores[name]
    yield from _evolved(before, after)
    if before["operator"] != after["operator"]:
        yield f"it belonged to {before['operator']}, and now belongs to {after['operator']}"
    was, now = before.get("retention_ms"), after.get("retention_ms")
    if was != now:
        yield f"retention was {spelled('grace', was)}, and is now {spelled('grace', now)}"
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
    yield from worded(windows[0], windows[1], "of its windows")
    changed = [key for key in differing(*options) if key not in _NOT_NOTED]
    if changed:
        yield f"{', '.join(changed)} of its operator changed; rows from before stay as they are"


def _feed(operator: Plain) -> str:
    options = operator["options"]
    if operator["kind"] == "repartition":
        return f"{options['topic']}-repartition"
    return ", ".join(options.get("topics", ())) or str(options.get("pattern") or options.get("topic"))
