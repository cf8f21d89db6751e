"""Names are used in topics, files and metrics: every option for a name refuses illegal ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, Materialized, Processor, TestDriver, join_window, tumbling, until_time_limit
from millstream.errors import InvalidNameError, MillstreamError

ABUSE = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "path": "../x",
    "absolute": "/etc/passwd",
    "backslash": "a\\b",
    "nul": "a\0b",
    "newline": "a\nb",
    "newline at the end": "a\n",
    "space": "a b",
    "unicode": "café",
    "fullwidth": "ａ",
    "quote": "a'b",
    "too long": "x" * 250,
    "a number": 5,
    "bytes": b"a",
}


def take(value: Any) -> bool:
    return True


PLACES: dict[str, Callable[[App, Any], Any]] = {
    "App": lambda app, name: App(name),
    "stream topic": lambda app, name: app.stream(name),
    "one of several topics": lambda app, name: app.stream("t", name),
    "table topic": lambda app, name: app.table(name),
    "global table topic": lambda app, name: app.global_table(name),
    "to": lambda app, name: app.stream("in").to(name),
    "dead letter topic": lambda app, name: App("names", errors_dead_letter_queue_topic_name=name),
    "add_store": lambda app, name: app.add_store(name),
    "table store": lambda app, name: app.table("in", store=name),
    "Materialized": lambda app, name: app.table("in", store=Materialized(name)),
    "global table store": lambda app, name: app.global_table("in", store=name),
    "count store": lambda app, name: app.stream("in").group_by_key().count(store=name),
    "windowed store": lambda app, name: app.stream("in").group_by_key().windowed_by(tumbling(5)).count(store=name),
    "table filter store": lambda app, name: app.table("in").filter(take, store=name),
    "table join store": lambda app, name: app.table("in").join(app.table("b"), lambda a, b: a, store=name),
    "deduplicate store": lambda app, name: app.stream("in").deduplicate(5, store=name),
    "stream name": lambda app, name: app.stream("in", name=name),
    "table name": lambda app, name: app.table("in", name=name),
    "global table name": lambda app, name: app.global_table("in", name=name),
    "filter name": lambda app, name: app.stream("in").filter(take, name=name),
    "to name": lambda app, name: app.stream("in").to("out", name=name),
    "count name": lambda app, name: app.stream("in").group_by_key().count(name=name),
    "to_stream name": lambda app, name: app.table("in").to_stream(name=name),
    "suppress name": lambda app, name: app.table("in").suppress(until_time_limit(5, name=name)),
    "process name": lambda app, name: app.stream("in").process(Processor, name=name),
    "deduplicate name": lambda app, name: app.stream("in").deduplicate(5, name=name),
    "join name": lambda app, name: app.stream("in").join(app.stream("b"), lambda a, b: a, join_window(5), name=name),
    "foreign-key join name": lambda app, name: app.table("in").join(
        app.table("b"), lambda a, b: a, on=lambda v: v, name=name
    ),
    "late name": lambda app, name: app.stream("in").group_by_key().windowed_by(tumbling(5)).count().late(name=name),
    "repartition name": lambda app, name: app.stream("in").repartition(name=name),
    "group_by name": lambda app, name: app.stream("in").group_by(take, name=name).count(),
    "group_by_key name": lambda app, name: app.stream("in").select_key(take).group_by_key(name=name).count(),
    "table group_by name": lambda app, name: app.table("in").group_by(lambda v: (v, v), name=name).count(),
    "branch": lambda app, name: app.stream("in").split({name: take}),
    "default branch": lambda app, name: app.stream("in").split({"a": take}, default=name),
    "split name": lambda app, name: app.stream("in").split({"a": take}, name=name),
}


def is_refused(place: str, name: Any) -> bool:
    try:
        PLACES[place](App("names"), name)
    except MillstreamError as error:
        text = str(error)
        return len(text) < 400 and "\0" not in text
    return False


@pytest.mark.parametrize("place", PLACES)
def test_an_invalid_name_is_refused(place: str) -> None:
    assert [kind for kind, name in ABUSE.items() if not is_refused(place, name)] == []


@pytest.mark.parametrize("place", PLACES)
def test_a_legal_name_is_accepted(place: str) -> None:
    PLACES[place](App("names"), "A.b_c-9")


@pytest.mark.parametrize("kind", [kind for kind, name in ABUSE.items() if isinstance(name, str)])
def test_the_name_returned_by_a_topic_function_is_checked(kind: str) -> None:
    app = App("names")
    app.stream("in", value=str).to(lambda value: value)
    with TestDriver(app) as driver, pytest.raises(MillstreamError, match="not allowed"):
        driver.input("in").pipe(ABUSE[kind])


def test_a_name_that_is_too_long_with_its_affixes_is_refused_where_it_is_passed() -> None:
    # Internal topics are <application>-<name>-repartition and <application>-<store>-changelog.
    with pytest.raises(InvalidNameError):
        App("a" * 200).stream("in").repartition(name="b" * 200)
    with pytest.raises(InvalidNameError):
        App("a" * 200).table("in", store="b" * 200)
