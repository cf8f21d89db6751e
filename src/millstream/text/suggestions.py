"""Hints for unknown attributes of DSL objects: the equivalent operator, or the right spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from millstream.errors import UnknownAttributeError, suggestion

C = TypeVar("C", bound=type)

_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")

_CLASSES: dict[str, type] = {}
"""The classes with hints, by name."""


def _each(names: Iterable[str], way: str) -> dict[str, str]:
    return {name: f"write {way.replace('NAME', name)}" for name in names}


# How to get from an object to the methods of another class; of several classes with a method, the last one counts.
_BEFORE = ".NAME(…) before the grouping, or on its result"
_WAYS: dict[str, dict[str, str]] = {
    "Stream": {"GroupedStream": ".group_by_key().NAME(…), or .group_by(…).NAME(…)"},
    "Table": {
        "GroupedStream": ".to_stream().group_by_key().NAME(…)",
        "Stream": ".to_stream().NAME(…)",
        "GroupedTable": ".group_by(…).NAME(…)",
    },
    "GroupedStream": {"Stream": _BEFORE},
    "GroupedTable": {"Stream": _BEFORE},
    "WindowedStream": {"Stream": _BEFORE},
    "CogroupedStream": {"Stream": _BEFORE},
}
_STREAM = {
    "windowed_by": "write .group_by_key().windowed_by(…), or .group_by(…).windowed_by(…): windows are of groups",
    "suppress": "write .group_by_key().windowed_by(…).count().suppress(…): tables hold updates back",
    "to_stream": "it is a stream already",
    "through": "write .to(topic) and app.stream(topic), or .repartition(name=…)",
    "branch": "write .split({name: predicate, …})",
    "transform": "write .process(…)",
    "transform_values": "write .process_values(…)",
    "flat_transform": "write .process(…)",
    "flat_transform_values": "write .process_values(…)",
    "union": "write .merge(…)",
    "where": "write .filter(…)",
    "key_by": "write .select_key(…)",
    "start": "applications are started: app.start(), or app.run()",
    "run": "applications are run: app.run()",
}
_TABLE = {
    "map": "write .map_values(…); or .to_stream().map(…), for another key",
    "group_by_key": "write .group_by(lambda key, value: (key, value))",
    "to_table": "it is a table already",
    "get": "give it a name, store=…, and read it: handle.store(name).get(key), or driver.store(name) in a test",
}
_FIRST = ".count(), .reduce(…) or .aggregate(…) first, then .to_stream()"
_GROUPED = {
    **_each(("to", "foreach", "print"), f"{_FIRST}.NAME(…)"),
    "to_stream": f"write {_FIRST}",
    "suppress": "write .windowed_by(…).count().suppress(…): tables hold updates back",
    "group_by_key": "it is grouped already",
    "group_by": "it is grouped already",
}
_GLOBAL = "a global table is only joined with: stream.join(global_table, …); app.table(…) has more operators"
_WINDOWS = {
    "advance_by": "write hopping(size, advance)",
    "until": 'write store=Materialized(name, retention="1d") where the windows are aggregated',
    "of": "windows are made by tumbling(…), hopping(…), sliding(…), session(…) and unlimited()",
}
_ELSEWHERE: dict[str, dict[str, str]] = {
    "Stream": _STREAM,
    "Table": _TABLE,
    "GroupedStream": _GROUPED,
    "GroupedTable": {**_GROUPED, "windowed_by": "write .to_stream().group_by_key().windowed_by(…) on the table"},
    "WindowedStream": {**_GROUPED, "windowed_by": "it is windowed already"},
    "CogroupedStream": {**_GROUPED, **_each(("count", "reduce"), ".aggregate(…): a cogroup is aggregated")},
    **dict.fromkeys(("TimeWindow", "SlidingWindow", "SessionWindow", "UnlimitedWindow", "JoinWindow"), _WINDOWS),
    "App": {
        "to": "streams are written: app.stream(…).to(topic)",
        "add_state_store": "write app.add_store(…)",
        "kstream": "write app.stream(…)",
        "ktable": "write app.table(…)",
        "build": "write app.topology(), or just app.run()",
        **_each(("stop", "wait", "metrics", "pause", "resume", "state"), "handle = app.start(), then handle.NAME"),
        "close": "write handle = app.start(), then handle.stop()",
    },
    "Handle": {
        "close": "write handle.stop()",
        "join": "write handle.wait()",
        "await_termination": "write handle.wait()",
        "is_running": "look at handle.state",
        "lag": 'look at handle.metrics()["sources"]',
        "run": "it runs since app.start(); handle.wait() waits until it has stopped",
    },
}


def suggesting_attributes(cls: C) -> C:
    """Makes access to an unknown attribute of a class raise an error with a hint.

    Type checkers do not see ``__getattr__`` here, so they still report misspelt attributes.
    """
    cls.__getattr__ = _unknown  # type: ignore[attr-defined]
    _CLASSES[cls.__name__] = cls
    return cls


def _hints(kind: type) -> dict[str, str]:
    """Returns the hints for attributes that a class lacks, by name."""
    names = [cls.__name__ for cls in kind.__mro__]
    if "GlobalTable" in names:
        return dict.fromkeys((*_TABLE, *_methods("Stream"), *_methods("Table")), _GLOBAL)
    hints: dict[str, str] = {}
    for other, way in next((_WAYS[name] for name in names if name in _WAYS), {}).items():
        hints |= _each(_methods(other), way)
    return hints | next((_ELSEWHERE[name] for name in names if name in _ELSEWHERE), {})


def _methods(name: str) -> list[str]:
    cls = _CLASSES[name]
    return [method for method in dir(cls) if not method.startswith("_") and callable(getattr(cls, method))]


def _unknown(owner: Any, name: str) -> NoReturn:
    kind = type(owner)
    # Python, copy, pickle and notebooks probe for names with an underscore; these are no mistakes.
    if name.startswith("_") or hasattr(kind, name):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    snake = _CAPITAL.sub(r"_\1", name).lower()
    public = [attribute for attribute in dir(kind) if not attribute.startswith("_")]
    hints = _hints(kind)
    hint = hints.get(snake)
    if hint is None and snake in public:
        hint = f"did you mean {snake!r}?"
    if hint is None:
        hint = suggestion(snake, public) or _near(snake, hints) or f"it has: {', '.join(public)}"
    error = UnknownAttributeError(f"a {kind.__name__} has no {name!r}", hint=hint)
    error.name = name  # else Python would append a suggestion of its own
    raise error


def _near(name: str, known: dict[str, str]) -> str | None:
    near = suggestion(name, known)
    return None if near is None else known[near.split("'")[1]]
