"""The effect of a changed topology on the state: which stores are kept, added, lost or incompatible, and why."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from millstream import (
    App,
    FixedKeyProcessor,
    Materialized,
    Processor,
    Record,
    Stream,
    TopologyError,
    agg,
    array,
    col,
    hopping,
    join_window,
    left,
    right,
    session,
    sliding,
    tumbling,
    until_time_limit,
    until_window_closes,
    value,
)
from millstream.expr import aggregates
from millstream.plan.compare import Comparison, compare
from millstream.plan.fingerprint import to_dict

Build = Callable[[App], object]


def plan(build: Build, application_id: str = "app", **options: Any) -> Any:
    app = App(application_id, **options)
    build(app)
    return app.topology().plan


def difference(old: Build, new: Build) -> Comparison:
    """Compares plans, directly and as read back from their stored form; the results must be equal."""
    comparison = compare(plan(old), plan(new))
    stored = [json.loads(json.dumps(to_dict(plan(build)))) for build in (old, new)]
    assert compare(stored[0], stored[1]) == comparison
    return comparison


def statuses(comparison: Comparison) -> dict[str, str]:
    return {change.name: change.status for change in comparison.stores}


class Silent(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


class SilentOnValues(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


# ----- the parts of a topology that the changes below are made of ----------------------------------------------------


def _with(options: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    return {**defaults, **options}


def table(app: App, **options: Any) -> Any:
    return app.table("t", **_with(options, value=str, store="s"))


def count(app: App, stream: Any = None, **options: Any) -> Any:
    stream = app.stream("a", value=str) if stream is None else stream
    return stream.group_by_key().count(**_with(options, store="s"))


def windows(app: App, window: Any, *, emit: Any = "update", **options: Any) -> Any:
    return app.stream("a").group_by_key().windowed_by(window, emit=emit).count(**_with(options, store="s"))


def joined(app: App, window: Any, how: str = "join", joiner: Any = None, **values: Any) -> Any:
    one, two = app.stream("a", **_with(values, value=str)), app.stream("b", value=str)
    return getattr(one, how)(two, joiner if joiner is not None else lambda a, _b: a, window, name="j")


def suppressed(app: App, until: Any, window: Any = None) -> Any:
    return windows(app, window or tumbling("1m")).suppress(until)


def repartitioned(app: App, **options: Any) -> Any:
    return count(app, app.stream("a", value=str).repartition(**_with(options, name="r")))


def added(app: App, kind: Any = "key-value", partitions: int | None = None, **options: Any) -> None:
    app.add_store("s", kind, **options)
    app.stream("a").repartition(name="r", partitions=partitions).process(Silent, "s")


def pairs(app: App, *, how: str = "join", on: Any = None) -> Any:
    on = col("id") if on is None else on
    return getattr(app.table("l"), how)(app.table("r"), lambda a, _b: a, on=on, name="j")


def by(app: App, key: Any) -> Any:
    stream = app.stream("a")
    return stream.group_by_key() if key is None else stream.group_by(key)


def silently(app: App, key: Any) -> Any:
    return app.stream("a").select_key(key).process_values(SilentOnValues).group_by_key()


def of_tables(app: App, joiner: Any) -> Any:
    return app.table("l").join(app.table("r"), joiner, store="s")


@dataclass
class Point:
    x: float
    y: float


@dataclass
class RenamedPoint:
    x: float
    y: float


@dataclass
class NamedPoint:
    x: float
    y: float
    name: str = ""


@dataclass
class Pixel:
    x: int
    y: int


@dataclass
class Place:
    street: str


class Pair(NamedTuple):
    one: str
    two: str


class Swapped(NamedTuple):
    two: str
    one: str


KEPT: dict[str, tuple[Build, Build]] = {
    "nothing": (count, count),
    "another function": (
        lambda a: count(a, a.stream("a", value=str).filter(lambda v: v > "m")),
        lambda a: count(a, a.stream("a", value=str).filter(lambda v: v < "m")),
    ),
    "a filter above": (count, lambda a: count(a, a.stream("a", value=str).filter(bool))),
    "a mapping above": (count, lambda a: count(a, a.stream("a", value=str).map_values(str.upper, value=str))),
    "a peek above": (count, lambda a: count(a, a.stream("a", value=str).peek(print))),
    "an operator below": (count, lambda a: count(a).filter(bool).to_stream().to("out")),
    "an operator elsewhere": (count, lambda a: (count(a), a.stream("x").filter(bool))),
    "another name of the operator": (count, lambda a: count(a, name="other")),
    "another expression": (
        lambda a: count(a, a.stream("a").filter(col("x"))),
        lambda a: count(a, a.stream("a").filter(col("y"))),
    ),
    "another source": (count, lambda a: count(a, a.stream("a", "b", value=str))),
    "another name of a class": (lambda a: table(a, value=Point), lambda a: table(a, value=RenamedPoint)),
    "a field with a default more": (lambda a: table(a, value=Point), lambda a: table(a, value=NamedPoint)),
    "joiner of streams": (
        lambda a: joined(a, join_window("1s"), joiner=left()),
        lambda a: joined(a, join_window("1s"), joiner=right()),
    ),
    "a changelog less": (count, lambda a: count(a, store=Materialized("s", logging=False))),
    "longer retention": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, tumbling("1m"), store=Materialized("s", retention="1h")),
    ),
    "shorter retention": (
        lambda a: windows(a, tumbling("1m"), store=Materialized("s", retention="1h")),
        lambda a: windows(a, tumbling("1m"), store=Materialized("s", retention="30m")),
    ),
    "longer history": (
        lambda a: table(a, store=Materialized("s", history="1h")),
        lambda a: table(a, store=Materialized("s", history="2h")),
    ),
    "idle": (lambda a: windows(a, sliding("1m")), lambda a: windows(a, sliding("1m", idle="1s"))),
    "limit of suppress": (
        lambda a: suppressed(a, until_time_limit("1m")),
        lambda a: suppressed(a, until_time_limit("2m", max_records=10)),
    ),
    "one more processor of a store": (
        added,
        lambda a: [build(a) for build in (added, lambda a: a.stream("b").process(Silent, "s", name="more"))],
    ),
    "retention of an added store": (
        lambda a: added(a, "window", retention="1h", window_size="1m"),
        lambda a: added(a, "window", retention="2h", window_size="1m"),
    ),
}


@pytest.mark.parametrize("change", KEPT)
def test_a_change_that_keeps_all_stores(change: str) -> None:
    comparison = difference(*KEPT[change])
    assert comparison.stores
    assert set(statuses(comparison).values()) == {"kept"}
    assert {topic.status for topic in comparison.topics} <= {"kept"}
    assert comparison.compatible
    assert str(comparison).startswith("Compatible: ")


INCOMPATIBLE: dict[str, tuple[Build, Build, str, str]] = {
    "keys": (table, lambda a: table(a, key=int), "s", "its keys were string, and are now long"),
    "values": (table, lambda a: table(a, value=int), "s", "its values were string, and are now long"),
    "kind": (
        table,
        lambda a: table(a, store=Materialized("s", history="1h")),
        "s",
        "it was a key-value store, and is now a versioned store",
    ),
    "windows": (
        lambda a: count(a, name="n"),
        lambda a: windows(a, tumbling("1m"), name="n"),
        "s",
        "it was a key-value store, and is now a window store",
    ),
    "window or session": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, session("1m")),
        "s",
        "it was a window store, and is now a session store",
    ),
    "window size": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, tumbling("90s")),
        "s",
        "the size of its windows was 1m, and is now 1m30s",
    ),
    "window advance": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, hopping("1m", "20s")),
        "s",
        "the advance of its windows was 1m, and is now 20s",
    ),
    "sliding difference": (
        lambda a: windows(a, sliding("1m")),
        lambda a: windows(a, sliding("2m")),
        "s",
        "the difference of its windows was 1m, and is now 2m",
    ),
    "session gap": (
        lambda a: windows(a, session("1m")),
        lambda a: windows(a, session("2m")),
        "s",
        "the gap of its windows was 1m, and is now 2m",
    ),
    "kind of window": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, sliding("1m")),
        "s",
        "it had time-windows, and now has sliding-windows",
    ),
    "emit": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, tumbling("1m"), emit="close"),
        "s",
        "it had windows that are emitted with every update, and now has windows that are emitted when they close",
    ),
    "join window": (
        lambda a: joined(a, join_window("1s")),
        lambda a: joined(a, join_window(before="1s", after="5s")),
        "j-left-store",
        "the after of its windows was 1s, and is now 5s",
    ),
    "one side of a join": (
        lambda a: joined(a, join_window("1s")),
        lambda a: joined(a, join_window("1s"), value=int),
        "j-left-store",
        "its values were string, and are now long",
    ),
    "counting or reducing": (
        lambda a: a.stream("a", value=int).group_by_key().count(store="s", name="n"),
        lambda a: a.stream("a", value=int).group_by_key().reduce(lambda x, _y: x, store="s", name="n"),
        "s",
        "its rows were count, and are now reduce",
    ),
    "kind of the operator": (
        lambda a: a.stream("a", value=int).to_table(store="s"),
        lambda a: a.stream("a", value=int).group_by_key().count(store="s"),
        "s",
        "it belonged to an operator of kind to-table, and now belongs to one of kind aggregate (count)",
    ),
    "table or global table": (
        table,
        lambda a: a.global_table("t", value=str, store="s"),
        "s",
        "it belonged to an operator of kind to-table, and now belongs to one of kind global-table",
    ),
    "suppress until": (
        lambda a: suppressed(a, until_time_limit("1m")),
        lambda a: suppressed(a, until_window_closes()),
        "s-suppress-store",
        "its rows waited for a time, and now wait until their window closes",
    ),
    "partitions": (
        lambda a: repartitioned(a, partitions=4),
        lambda a: repartitioned(a, partitions=8),
        "s",
        "its rows were in 4 partitions, and are now in 8 partitions",
    ),
    "partitions of another topic": (
        lambda a: repartitioned(a, partitions=4),
        lambda a: repartitioned(a, partitions=8, name="q"),
        "s",
        "its rows were in 4 partitions, and are now in 8 partitions",
    ),
    "partitions of the input": (
        count,
        lambda a: repartitioned(a, partitions=8),
        "s",
        "its rows were in as many partitions as the input has, and are now in 8 partitions",
    ),
    "partitioner": (
        repartitioned,
        lambda a: repartitioned(a, partitioner=lambda _k, _v, _n: 0),
        "s",
        "its rows were partitioned by the bytes of their keys, and are now partitioned by a function of the user's",
    ),
    "kind of an added store": (
        added,
        lambda a: added(a, "timestamped"),
        "s",
        "it had rows without a timestamp, and now has rows with a timestamp",
    ),
    "size of an added window store": (
        lambda a: added(a, "window", retention="1h", window_size="1m"),
        lambda a: added(a, "window", retention="1h", window_size="2m"),
        "s",
        "the size of its windows was 1m, and is now 2m",
    ),
    "duplicates of an added store": (
        lambda a: added(a, "window", retention="1h", window_size="1m"),
        lambda a: added(a, "window", retention="1h", window_size="1m", duplicates=True),
        "s",
        "it had one row for each key and time, and now has several rows for each key and time",
    ),
    "grace": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, tumbling("1m", grace="1h")),
        "s",
        "the grace of its windows was 0ms, and is now 1h",
    ),
    "grace of sessions": (
        lambda a: windows(a, session("1m", grace="1h")),
        lambda a: windows(a, session("1m")),
        "s",
        "the grace of its windows was 1h, and is now 0ms",
    ),
    "grace of a join": (
        lambda a: joined(a, join_window("1s")),
        lambda a: joined(a, join_window("1s", grace="1m")),
        "j-left-store",
        "the grace of its windows was 0ms, and is now 1m",
    ),
    "kind of a join": (
        lambda a: joined(a, join_window("1s"), "left_join"),
        lambda a: joined(a, join_window("1s"), "outer_join"),
        "j-left-store",
        "the kind of its operator was left, and is now outer",
    ),
    "kind of a foreign-key join": (
        pairs,
        lambda a: pairs(a, how="left_join"),
        "j-subscriptions-store",
        "its rows were grouped by `id` (inner join), and now by `id` (left join)",
    ),
    "foreign key": (
        pairs,
        lambda a: pairs(a, on=col("other")),
        "j-subscriptions-store",
        "its rows were grouped by `id` (inner join), and now by `other` (inner join)",
    ),
    "joiner of tables": (
        lambda a: of_tables(a, left("x")),
        lambda a: of_tables(a, right("x")),
        "s",
        "the joiner of its operator was `left.x`, and is now `right.x`",
    ),
    "predicate of a kept table": (
        lambda a: a.table("t").filter(col("x"), store="s"),
        lambda a: a.table("t").filter(col("y"), store="s"),
        "s",
        "the predicate of its operator was `x`, and is now `y`",
    ),
    "grouping expression": (
        lambda a: by(a, col("x")).count(store="s"),
        lambda a: by(a, col("y")).count(store="s"),
        "s",
        "its rows were grouped by `x`, and now by `y`",
    ),
    "grouping of a table": (
        lambda a: a.table("t").group_by(array(col("x"), value()), key=str).count(store="s"),
        lambda a: a.table("t").group_by(array(col("y"), value()), key=str).count(store="s"),
        "s",
        "its rows were grouped by `ARRAY[x, value]`, and now by `ARRAY[y, value]`",
    ),
    "grouping behind other operators": (
        lambda a: by(a, col("x")).count(store="other").to_stream().select_key(value()).group_by_key().count(store="s"),
        lambda a: (
            by(a, col("x")).count(store="other").to_stream().select_key(value() + 1).group_by_key().count(store="s")
        ),
        "s",
        "its rows were grouped by `value`, and now by `value + 1`",
    ),
    "grouping above a processor that keeps keys": (
        lambda a: silently(a, col("x")).count(store="s"),
        lambda a: silently(a, col("y")).count(store="s"),
        "s",
        "its rows were grouped by `x`, and now by `y`",
    ),
    "own keys": (
        lambda a: by(a, None).count(store="s"),
        lambda a: by(a, col("x")).count(store="s"),
        "s",
        "its rows were grouped by the key of the records, and now by `x`",
    ),
    "expression of an aggregator": (
        lambda a: by(a, None).aggregate(int, agg() + col("x"), value=int, store="s"),
        lambda a: by(a, None).aggregate(int, agg() + col("y"), value=int, store="s"),
        "s",
        (
            "its rows were aggregate with init a Python function, add `agg + x`, "
            "and are now aggregate with init a Python function, add `agg + y`"
        ),
    ),
    "what is summed": (
        lambda a: by(a, None).sum(col("x"), store="s"),
        lambda a: by(a, None).sum(col("y"), store="s"),
        "s",
        "its rows were sum(x), and are now sum(y)",
    ),
    "sum or max": (
        lambda a: by(a, None).sum(col("x"), store="s"),
        lambda a: by(a, None).max(col("x"), store="s"),
        "s",
        "its rows were sum(x), and are now max(x)",
    ),
    "min or max, of functions": (
        lambda a: by(a, None).min(lambda v: v["x"], store="s"),
        lambda a: by(a, None).max(lambda v: v["x"], store="s"),
        "s",
        "its rows were min(a Python function), and are now max(a Python function)",
    ),
    "average or list": (
        lambda a: by(a, None).avg(col("x"), store="s"),
        lambda a: by(a, None).collect(col("x"), store="s"),
        "s",
        "its rows were avg(x), and are now collect(x)",
    ),
    "average or list in windows": (
        lambda a: by(a, None).windowed_by(tumbling("1m")).avg(col("x"), store="s"),
        lambda a: by(a, None).windowed_by(tumbling("1m")).collect(col("x"), store="s"),
        "s",
        "its rows were avg(x), and are now collect(x)",
    ),
    "average or list of a table": (
        lambda a: a.table("t").group_by(lambda v: (v, v), value=dict).avg(col("x"), store="s"),
        lambda a: a.table("t").group_by(lambda v: (v, v), value=dict).collect(col("x"), store="s"),
        "s",
        "its rows were avg(x), and are now collect(x)",
    ),
    "what makes duplicates": (
        lambda a: a.stream("a").deduplicate("1m", by=col("x"), store="s"),
        lambda a: a.stream("a").deduplicate("1m", by=col("y"), store="s"),
        "s",
        "the function of a-deduplicate was `x`, and is now `y`",
    ),
    "option of an aggregate": (
        lambda a: by(a, None).top_k(3, col("x"), store="s"),
        lambda a: by(a, None).top_k(5, col("x"), store="s"),
        "s",
        "its rows were top_k(x, k=3), and are now top_k(x, k=5)",
    ),
    "one aggregate more": (
        lambda a: by(a, None).aggregate(n=aggregates.count(), store="s"),
        lambda a: by(a, None).aggregate(n=aggregates.count(), top=aggregates.max_(col("x")), store="s"),
        "s",
        "its rows were n=count(), and are now n=count(), top=max(x)",
    ),
    "fields of a type": (
        lambda a: table(a, value=Point),
        lambda a: table(a, value=Place),
        "s",
        "the type of its values changed: the field x is gone",
    ),
    "type of a field": (
        lambda a: table(a, value=list[Point]),
        lambda a: table(a, value=list[Pixel]),
        "s",
        "the type of its values changed: [].x was DOUBLE, and is now BIGINT",
    ),
    "order of fields": (
        lambda a: table(a, value=Pair),
        lambda a: table(a, value=Swapped),
        "s",
        "the type of its values changed: the fields have another order",
    ),
    "partitions above a processor": (
        lambda a: added(a, partitions=2),
        lambda a: added(a, partitions=3),
        "s",
        "its rows were in 2 partitions, and are now in 3 partitions",
    ),
}


@pytest.mark.parametrize("change", INCOMPATIBLE)
def test_a_change_that_makes_a_store_incompatible(change: str) -> None:
    old, new, store, reason = INCOMPATIBLE[change]
    for before, after in ((old, new), (new, old)):
        comparison = difference(before, after)
        assert not comparison.compatible
        assert store in comparison.names("incompatible")
    [changed] = [change for change in difference(old, new).stores if change.name == store]
    assert reason in changed.reasons
    report = str(difference(old, new))
    assert report.startswith("Not compatible: ")
    assert f"  {store} (of {changed.operator}): incompatible\n" in report
    for words in (
        reason,
        "begins empty" if store == "s" else "millstream migrate",
        "millstream reset",
        "new application id",
    ):
        assert words in " ".join(report.split())


def test_stores_that_only_one_topology_has_are_added_or_lost() -> None:
    comparison = difference(lambda a: (count(a), table(a, store="old")), lambda a: (count(a), table(a, store="new")))
    assert statuses(comparison) == {"s": "kept", "new": "added", "old": "lost"}
    assert comparison.compatible
    assert "old (of t-table): lost, no operator uses its contents any more" in str(comparison)
    assert "new (of t-table): added, begins empty" in str(comparison)


def test_an_outer_join_adds_stores_for_unmatched_records() -> None:
    comparison = difference(
        lambda a: joined(a, join_window("1s")), lambda a: joined(a, join_window("1s"), "outer_join")
    )
    assert comparison.names("added") == ["j-left-unmatched-store", "j-right-unmatched-store"]


@pytest.mark.parametrize(
    ("change", "keepable"),
    [
        ("grace", True),
        ("what is summed", True),
        ("grouping expression", True),
        ("fields of a type", True),
        ("kind of a join", False),  # the store has no name
        ("sum or max", False),
        ("one aggregate more", False),
        ("window size", False),
        ("values", False),
    ],
)
def test_a_named_store_of_which_only_the_meaning_changed_can_be_kept(change: str, keepable: bool) -> None:
    old, new, name, _ = INCOMPATIBLE[change]
    [store] = [change for change in difference(old, new).stores if change.name == name]
    assert store.keepable is keepable
    assert ("millstream migrate --keep" in store.remedy) is keepable


THRESHOLD = 5


def _is_large(value: str) -> bool:
    return len(value) > THRESHOLD


def filtered(app: App, predicate: Any) -> Any:
    return count(app, app.stream("a", value=str).filter(predicate))


def test_a_changed_python_function_is_named_in_one_line() -> None:
    comparison = difference(lambda a: filtered(a, lambda v: v > "m"), lambda a: filtered(a, lambda v: v < "m"))
    assert comparison.compatible
    line = comparison.changed_functions
    assert line is not None
    assert line.startswith("Python functions changed; rows from before stay as they are: a-filter (test_compare.py:")
    assert line in str(comparison).splitlines()


def test_a_changed_function_that_no_store_depends_on_is_only_listed() -> None:
    def written(app: App, function: Any) -> None:
        count(app).to_stream().map_values(function).to("out", value=int)

    comparison = difference(lambda a: written(a, lambda v: v + 1), lambda a: written(a, lambda v: v + 2))
    assert comparison.changed_functions is None
    assert "  s-map-values: changed (code of function)" in str(comparison).splitlines()


def test_functions_that_did_not_change_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    same = difference(lambda a: filtered(a, lambda v: v > "m"), lambda a: filtered(a, lambda v: v > "m"))
    assert same.changed_functions is None
    assert difference(lambda a: filtered(a, _is_large), lambda a: filtered(a, _is_large)).changed_functions is None
    stored = to_dict(plan(lambda a: filtered(a, _is_large)))
    monkeypatch.setitem(_is_large.__globals__, "THRESHOLD", 6)
    assert compare(stored, plan(lambda a: filtered(a, _is_large))).functions  # a constant that it refers to changed


@pytest.mark.parametrize("limits", [(1, 2), ("a", "b")])
def test_the_values_in_a_closure_are_part_of_a_function(limits: tuple[Any, Any]) -> None:
    def above(limit: Any) -> Any:
        return lambda v: v > limit

    one, two = limits
    assert difference(lambda a: filtered(a, above(one)), lambda a: filtered(a, above(two))).functions
    assert not difference(lambda a: filtered(a, above(one)), lambda a: filtered(a, above(one))).functions


def test_functions_of_another_version_of_python_are_not_compared() -> None:
    stored = to_dict(plan(lambda a: filtered(a, lambda v: v > "m")))
    stored["functions"]["python"] = "3.0"
    assert compare(stored, plan(lambda a: filtered(a, lambda v: v < "m"))).changed_functions is None


def test_processors_and_callable_objects_are_functions_too() -> None:
    class Loud(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            print(record)

    def processed(app: App, supplier: Any) -> None:
        app.add_store("s")
        app.stream("a").process(supplier, "s", name="p")

    assert difference(lambda a: processed(a, Silent), lambda a: processed(a, Silent)).functions == ()
    [changed] = difference(lambda a: processed(a, Silent), lambda a: processed(a, Loud)).functions
    assert changed.startswith("p (")
    assert difference(
        lambda a: filtered(a, functools.partial(str.startswith, "x")),
        lambda a: filtered(a, functools.partial(str.endswith, "x")),
    ).functions


def test_a_table_has_a_store_only_if_it_is_materialized() -> None:
    def unread(app: App) -> None:
        app.table("t").to_stream().to("out")

    def looked_up(app: App) -> None:
        rows = app.table("t")
        rows.to_stream().to("out")
        app.stream("a").join(rows, lambda a, _b: a)

    assert statuses(difference(unread, unread)) == {}
    assert statuses(difference(unread, looked_up)) == {"t-table-store": "added"}
    assert statuses(difference(looked_up, unread)) == {"t-table-store": "lost"}


def test_an_optimization_that_shares_a_store_loses_the_other() -> None:
    def itself(app: App) -> None:
        stream = app.stream("a", value=str)
        stream.join(stream, lambda a, _b: a, join_window("1s"), name="j")

    comparison = compare(plan(itself), plan(itself, topology_optimization="all"))
    assert statuses(comparison) == {"j-left-store": "kept", "j-right-store": "lost"}


def rekeyed(app: App, *, key: Any = int, value: Any = str, **options: Any) -> None:
    stream = app.stream("a", value=value).select_key(len, key=key)
    stream.repartition(**_with(options, name="r")).to("out")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"key": str}, "its keys were long, and are now string"),
        ({"value": bytes}, "its values were string, and are now bytes"),
        ({"partitions": 3}, "it had as many partitions as the input has, and now has 3 partitions"),
    ],
)
def test_a_change_that_makes_a_repartition_topic_incompatible(options: dict[str, Any], reason: str) -> None:
    comparison = difference(rekeyed, lambda a: rekeyed(a, **options))
    assert [(topic.name, topic.status, topic.reasons) for topic in comparison.topics] == [
        ("r", "incompatible", (reason,))
    ]
    assert not comparison.compatible
    assert 'another name (name="r-v2")' in str(comparison)


def test_a_repartition_topic_of_records_is_incompatible_with_one_of_changes() -> None:
    def of_stream(app: App) -> None:
        app.stream("a", value=str).select_key(str, key=str).group_by_key(name="r").count(store="s")

    def of_table(app: App) -> None:
        app.table("a", value=str).group_by(lambda v: (v, v), key=str, value=str, name="r").count(store="s")

    [topic] = difference(of_stream, of_table).topics
    assert "it carried records of a stream, and now carries changes of a table" in topic.reasons


def test_repartition_topics_that_only_one_topology_has_are_added_or_lost() -> None:
    comparison = difference(rekeyed, lambda a: rekeyed(a, name="q"))
    assert {topic.name: topic.status for topic in comparison.topics} == {"q": "added", "r": "lost"}
    assert comparison.compatible


def test_operators_are_kept_added_removed_or_changed() -> None:
    def old(app: App) -> None:
        count(app, app.stream("a", value=str).filter(bool)).to_stream().to("out")

    def new(app: App) -> None:
        count(app, app.stream("a", value=str).peek(print)).to_stream().to("out", value=str)

    comparison = {
        change.name: (change.status, change.reasons or change.notes) for change in difference(old, new).operators
    }
    assert comparison == {
        "a-source": ("kept", ()),
        "a-peek": ("added", ("peek",)),
        "a-count": ("changed", ("parents",)),
        "s-to-stream": ("kept", ()),
        "out-sink": ("changed", ("value",)),
        "a-filter": ("removed", ("filter",)),
    }


NOTES: dict[str, tuple[Build, Build, str]] = {
    "operator": (count, lambda a: count(a, name="n"), "it belonged to a-count, and now belongs to n"),
    "retention": (
        lambda a: windows(a, tumbling("1m")),
        lambda a: windows(a, tumbling("1m"), store=Materialized("s", retention="1h")),
        "retention was 1m, and is now 1h",
    ),
    "changelog": (count, lambda a: count(a, store=Materialized("s", logging=False)), "no changelog now"),
    "a changelog more": (
        lambda a: count(a, store=Materialized("s", logging=False)),
        count,
        "it now has a changelog, without the rows from before",
    ),
    "source": (
        count,
        lambda a: count(a, a.stream("a", "b", value=str)),
        "it was fed by a, and is now fed by a, b",
    ),
    "grouping": (
        count,
        lambda a: count(a, a.stream("a", value=str).select_key(str, key=str)),
        "it was fed by a, and is now fed by s-repartition",
    ),
    "an expression instead of a function": (
        lambda a: by(a, None).sum(lambda v: v["x"], store="s"),
        lambda a: by(a, None).sum(col("x"), store="s"),
        "aggregation of its operator changed; rows from before stay as they are",
    ),
    "a field with a default": (
        lambda a: table(a, value=Point),
        lambda a: table(a, value=NamedPoint),
        "the type of its values changed: the field name is new: rows from before get its default",
    ),
}


@pytest.mark.parametrize("change", NOTES)
def test_changes_around_a_store_that_is_kept_are_noted(change: str) -> None:
    old, new, note = NOTES[change]
    comparison = difference(old, new)
    assert comparison.compatible
    [store] = comparison.stores
    assert note in store.notes
    assert f"    - {note}\n" in f"{comparison}\n"


def test_the_report() -> None:
    def old(app: App) -> None:
        windows(app, tumbling("1m"), store="per-minute")
        table(app, store="rows")

    def new(app: App) -> None:
        windows(app, tumbling("5m"), store="per-minute")
        table(app, store=Materialized("rows", logging=False)).to_stream().to("out")

    assert (
        str(difference(old, new))
        == dedent("""
        Not compatible: the new topology cannot continue with the state of the old one.

        Stores
          per-minute (of a-count): incompatible
            - the advance of its windows was 1m, and is now 5m
            - the size of its windows was 1m, and is now 5m
            remedy: give the new one another name (store="per-minute-v2"), so that it begins empty; or begin
              again from the input: millstream reset; or give the application a new application id
          rows (of t-table): kept
            - no changelog now

        Operators
          a-count: changed (window)
          rows-to-stream: added (to-stream)
          out-sink: added (sink)
    """).strip()
    )


def test_the_remedy_for_a_derived_store_name_is_to_name_the_operator() -> None:
    comparison = difference(lambda a: joined(a, join_window("1s")), lambda a: joined(a, join_window("2s")))
    assert all('name="j-v2"' in store.remedy for store in comparison.stores)


def test_different_application_ids_are_reported() -> None:
    comparison = compare(plan(count, "one"), plan(count, "two"))
    assert comparison.compatible
    assert "The application ids differ (one, two)" in str(comparison)


def test_a_stored_topology_of_another_format_is_refused() -> None:
    stored = to_dict(plan(count)) | {"format": 99}
    with pytest.raises(TopologyError, match="has format 99, and this version reads 3"):
        compare(stored, plan(count))


# ----- names ---------------------------------------------------------------------------------------------------------
# A new topology finds stores and internal topics by name, so a change elsewhere must not change derived names. Each
# edit below is one that ADR 0004 promises to be safe.


def sales(app: App, edit: str = "") -> None:
    """A topology with every kind of derived name; `edit` adds an operator."""

    def here(stream: Stream[Any, Any], place: str) -> Stream[Any, Any]:
        if edit == f"filter {place}":
            return stream.filter(bool)
        if edit == f"map_values {place}":
            return stream.map_values(lambda v: v, value=dict)
        return stream.peek(print) if edit == f"peek {place}" else stream

    if edit == "a stream first":
        app.stream("others").group_by_key().count()
    orders = here(app.stream("orders", value=dict), "above everything")
    if edit == "a sink first":
        orders.to("copy")
    users = app.table("users", value=dict)
    if edit == "a filtered table":
        users.filter(bool).to_stream().to("few")
    shops = app.table("shops", value=dict)
    if edit == "a branch elsewhere":
        orders.split({"large": bool}, default="small")["large"].to("large")
    if edit == "a merge elsewhere":
        orders.merge(app.stream("returns", value=dict)).to("both")
    by_shop = here(orders.select_key(col("shop"), key=str), "behind the new key")
    per_shop = here(by_shop, "above an aggregate").group_by_key().windowed_by(tumbling("1m")).count()
    per_shop.suppress(until_window_closes()).to_stream().to("final")
    if edit == "a late stream":
        per_shop.late().to("late")
    known = here(orders, "above a join").join(users, lambda o, _u: o, value=dict)
    here(known, "below a join").group_by(col("item"), key=str).aggregate(dict, lambda _v, a: a, value=dict)
    orders.left_join(app.stream("clicks", value=dict), lambda o, _c: o, join_window("1s"))
    users.join(shops, lambda u, _s: u, on=col("shop")).to_stream().to("at")
    users.group_by(lambda u: (u["shop"], u), value=dict).count()
    users.outer_join(shops, lambda u, _s: u).to_stream().to("all")
    orders.repartition().to("dealt")
    if edit == "an operator last":
        orders.group_by_key().count()


def names(edit: str = "") -> set[str]:
    data = to_dict(plan(lambda a: sales(a, edit)))
    topics = {o["options"]["topic"] for o in data["operators"].values() if o["kind"] == "repartition"}
    return {*data["stores"], *(f"{topic}-repartition" for topic in topics)}


NAMES = {
    "orders-clicks-left-join-left-store",
    "orders-clicks-left-join-left-unmatched-store",
    "orders-clicks-left-join-right-store",
    "orders-count-repartition",
    "orders-count-store",
    "orders-count-suppress-store",
    "orders-repartition",
    "orders-users-join-aggregate-repartition",
    "orders-users-join-aggregate-store",
    "shops-table-store",
    "users-count-repartition",
    "users-count-store",
    "users-shops-foreign-key-join-answer-repartition",
    "users-shops-foreign-key-join-subscription-repartition",
    "users-shops-foreign-key-join-subscriptions-store",
    "users-table-store",
}

PLACES = ("above everything", "behind the new key", "above an aggregate", "above a join", "below a join")
EDITS = [f"{what} {place}" for what in ("filter", "map_values", "peek") for place in PLACES] + [
    "a stream first",
    "a sink first",
    "a filtered table",
    "a branch elsewhere",
    "a merge elsewhere",
    "a late stream",
    "an operator last",
]


@pytest.mark.parametrize("edit", EDITS)
def test_a_safe_edit_renames_no_store_and_no_topic(edit: str) -> None:
    assert names() == NAMES
    assert names(edit) >= NAMES
    comparison = difference(sales, lambda a: sales(a, edit))
    assert comparison.compatible
    assert comparison.names("lost") == []
    assert [topic.name for topic in comparison.topics if topic.status == "lost"] == []
    assert any(operator.status == "added" for operator in comparison.operators)
