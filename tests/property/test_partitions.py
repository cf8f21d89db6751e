"""Tables, and the output of each key, do not depend on the number of partitions.

That holds if no record is late and no result depends on the order between keys. So in these topologies timestamps only
increase.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, strategies as st

from millstream import (
    App,
    Materialized,
    TestDriver,
    join_window,
    session,
    sliding,
    tumbling,
    until_time_limit,
)

Inputs = list[tuple[str, str, int]]


def count_words(app: App) -> None:
    """A repartition and a count."""
    words = app.stream("a", key=str, value=str).flat_map_values(lambda line: line.split(), value=str)
    words.group_by(lambda word: word, key=str).count(store="s").to_stream().to("out")


def windows(app: App) -> None:
    """Tumbling, session and sliding windows, with a grace period that no record exceeds."""
    grouped = app.stream("a", key=str, value=str).group_by_key()
    grouped.windowed_by(tumbling(10, grace="1d")).count(store="s").to_stream().to("out")
    grouped.windowed_by(session(5, grace="1d")).count(store="t").to_stream().to("sessions")
    grouped.windowed_by(sliding(7, grace="1d")).count(store="u").to_stream().to("sliding")


def table_joins(app: App) -> None:
    """Two tables joined by key."""
    left = app.table("a", key=str, value=str, store="s")
    right = app.table("b", key=str, value=str, store="t")
    joined = left.outer_join(right, lambda x, y: f"{x}-{y}", value=str, store="u")
    joined.to_stream().to("out")


def regrouped_table(app: App) -> None:
    """A table grouped by its value, so that rows move between groups."""
    table = app.table("a", key=str, value=str, store="s")
    table.group_by(lambda key, value: (value, key), key=str, value=str).count(store="t")


def stream_joins(app: App) -> None:
    """A stream joined with a stream and with a table."""
    left, right = app.stream("a", key=str, value=str), app.stream("b", key=str, value=str)
    window = join_window(10, grace="1d")
    left.join(right, lambda x, y: f"{x}-{y}", window, value=str).to("out")


def foreign_keys(app: App) -> None:
    """A foreign-key join, whose final table does not depend on the order."""
    left = app.table("a", key=str, value=str, store="s")
    right = app.table("b", key=str, value=str, store="t")
    left.left_join(right, lambda x, y: f"{x}-{y}", on=lambda value: value, value=str, store="u")


def stored(app: App) -> None:
    """Versioned rows, and a stream joined with them."""
    table = app.table("b", key=str, value=str, store=Materialized("s", history="1d"))
    app.stream("a", key=str, value=str).left_join(table, lambda x, y: f"{x}-{y}", value=str).to("out")
    app.stream("a", key=str, value=str).group_by_key().count(store="t").suppress(until_time_limit(0)).to_stream().to(
        "c"
    )


TOPOLOGIES: list[Callable[[App], None]] = [
    count_words,
    windows,
    table_joins,
    regrouped_table,
    stream_joins,
    foreign_keys,
    stored,
]

inputs = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from(["x", "y", "z", "w", "v"]), st.sampled_from(["x", "y", "x y", "z"])
    ),
    max_size=40,
)


def run(topology: Callable[[App], None], records: Inputs, partitions: int) -> tuple[Any, Any]:
    """Returns the final stores, and the output of each key by topic."""
    app = App("partitions")
    topology(app)
    with TestDriver(app, partitions=partitions) as driver:
        read = {t for source in driver.topology.parts for s in source.sources for t in driver.topology.topics(s)}
        for time, (topic, key, value) in enumerate(records):
            if topic in read:
                driver.input(topic).pipe(key, value, timestamp=time)
        outputs: dict[Any, list[Any]] = {}
        for topic in driver.produced_topics:
            if not topic.endswith("-repartition"):
                for record in driver.output(topic).read_all():
                    outputs.setdefault((topic, record.key), []).append(record)
        names = [spec.name for node in driver.topology.plan.nodes for spec in node.stores if len(spec.name) == 1]
        return {name: rows(driver, name) for name in names}, outputs


def rows(driver: TestDriver, name: str) -> Any:
    """Returns the rows of a store."""
    store, kind = driver.store(name), driver.topology.plan.store(name)[1].kind
    if kind == "session":
        return [list(store.fetch(key)) for key in "xyzwv"]
    if kind == "versioned":
        return [store.get(key) for key in "xyzwv"]
    return sorted(store.all(), key=str)


@given(st.sampled_from(TOPOLOGIES), inputs, st.integers(2, 8))
def test_the_number_of_partitions_does_not_change_the_results(
    topology: Callable[[App], None], records: Any, partitions: int
) -> None:
    """Each topology, with one partition and with several."""
    assert run(topology, records, partitions) == run(topology, records, 1)
