"""Unknown attributes of DSL objects are refused with a hint, without side effects."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, TopologyError, session, tumbling, unlimited
from millstream.errors import UnknownAttributeError
from millstream.runtime.handle import Handle


def app() -> Any:
    return App("attributes")


OBJECTS: dict[str, Callable[[], Any]] = {
    "App": app,
    "Stream": lambda: app().stream("in"),
    "JoinedStream": lambda: (application := app()).stream("in").join(application.table("other"), lambda a, b: a),
    "Table": lambda: app().table("in"),
    "WindowedTable": lambda: app().stream("in").group_by_key().windowed_by(tumbling("1m")).count(),
    "GlobalTable": lambda: app().global_table("in"),
    "GroupedStream": lambda: app().stream("in").group_by_key(),
    "GroupedTable": lambda: app().table("in").group_by(lambda k, v: (k, v)),
    "WindowedStream": lambda: app().stream("in").group_by_key().windowed_by(tumbling("1m")),
    "CogroupedStream": lambda: app().stream("in").group_by_key().cogroup(lambda v, a: a),
    "TimeWindow": lambda: tumbling("1m"),
    "SessionWindow": lambda: session("1m"),
    "UnlimitedWindow": unlimited,
    "Handle": lambda: object.__new__(Handle),
}


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("Stream", "filtr", "did you mean 'filter'?"),
        ("Stream", "mapValues", "did you mean 'map_values'?"),
        ("Stream", "groupByKey", "did you mean 'group_by_key'?"),
        ("Stream", "windowed_by", "write .group_by_key().windowed_by(…), or .group_by(…).windowed_by(…): windows are"),
        ("Stream", "windowedBy", "write .group_by_key().windowed_by(…)"),
        ("Stream", "windowedby", "write .group_by_key().windowed_by(…)"),
        ("Stream", "count", "write .group_by_key().count(…), or .group_by(…).count(…)"),
        ("Stream", "aggregate", "write .group_by_key().aggregate(…)"),
        ("Stream", "branch", "write .split("),
        ("JoinedStream", "sum", "write .group_by_key().sum(…)"),
        ("Table", "to", "write .to_stream().to(…)"),
        ("Table", "map", "write .map_values(…); or .to_stream().map(…)"),
        ("Table", "foreach", "write .to_stream().foreach(…)"),
        ("Table", "count", "write .group_by(…).count(…)"),
        ("Table", "group_by_key", "write .group_by(lambda key, value: (key, value))"),
        ("WindowedTable", "to", "write .to_stream().to(…)"),
        ("WindowedTable", "supress", "did you mean 'suppress'?"),
        ("GlobalTable", "to_stream", "a global table is only joined with"),
        ("GroupedStream", "to", "write .count(), .reduce(…) or .aggregate(…) first, then .to_stream().to(…)"),
        ("GroupedStream", "cuont", "did you mean 'count'?"),
        ("GroupedTable", "windowed_by", "write .to_stream().group_by_key().windowed_by(…) on the table"),
        ("WindowedStream", "suppress", "write .windowed_by(…).count().suppress(…)"),
        ("CogroupedStream", "count", "write .aggregate(…)"),
        ("App", "strem", "did you mean 'stream'?"),
        ("App", "globalTable", "did you mean 'global_table'?"),
        ("App", "stop", "write handle = app.start(), then handle.stop"),
        ("TimeWindow", "advance_by", "write hopping(size, advance)"),
        ("SessionWindow", "gracee", "did you mean 'grace'?"),
        ("Handle", "close", "write handle.stop()"),
        ("Handle", "metrisc", "did you mean 'metrics'?"),
        ("Stream", "xyzzy", "it has: "),
    ],
)
def test_a_near_miss_gets_a_hint(kind: str, name: str, hint: str) -> None:
    thing = OBJECTS[kind]()
    with pytest.raises(UnknownAttributeError) as caught:
        getattr(thing, name)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)
    assert caught.value.message == f"a {kind} has no {name!r}"
    assert caught.value.at.startswith("test_attributes.py:")
    assert isinstance(caught.value, TopologyError)
    assert "Did you mean" not in "".join(traceback.format_exception(caught.value))


def test_operators_named_in_hints_exist() -> None:
    stream, table = OBJECTS["Stream"](), OBJECTS["Table"]()
    for name in ("to", "map", "flat_map", "process", "process_values", "merge", "split", "select_key", "repartition"):
        assert callable(getattr(table.to_stream(), name))
    for name in ("count", "reduce", "aggregate", "cogroup", "sum", "min", "max", "avg", "top_k", "windowed_by"):
        assert callable(getattr(stream.group_by_key(), name))


@pytest.mark.parametrize("kind", OBJECTS)
def test_hasattr_and_getattr_work(kind: str) -> None:
    thing = OBJECTS[kind]()
    assert not hasattr(thing, "filtr")
    assert not hasattr(thing, "_repr_png_")
    assert getattr(thing, "filtr", None) is None
    with pytest.raises(AttributeError) as caught:
        _ = thing._private
    assert type(caught.value) is AttributeError
    copy.copy(thing)


@pytest.mark.parametrize("kind", ["TimeWindow", "SessionWindow", "UnlimitedWindow"])
def test_windows_can_be_copied_and_pickled(kind: str) -> None:
    window = OBJECTS[kind]()
    assert copy.deepcopy(window) == pickle.loads(pickle.dumps(window)) == window
