"""The topics that an application may read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, TestDriver, TopologyError

REFUSED: dict[str, tuple[Callable[[App], Any], str]] = {
    "as a stream and a table": (lambda app: (app.stream("t"), app.table("t")), "already read"),
    "as a table and a stream": (lambda app: (app.table("t"), app.stream("t")), "already read"),
    "as two tables": (lambda app: (app.table("t"), app.table("t")), "already read"),
    "as a table and a global table": (lambda app: (app.table("t"), app.global_table("t")), "already read"),
    "as a global table and a stream": (lambda app: (app.global_table("t"), app.stream("t")), "already read"),
    "with different serdes": (lambda app: (app.stream("t", value=int), app.stream("t", value=str)), "another way"),
    "with different timestamps": (
        lambda app: (app.stream("t"), app.stream("t", timestamp="wall_clock")),
        "another way",
    ),
    "once alone and once with another": (lambda app: (app.stream("t"), app.stream("t", "u")), "another way"),
    "twice in one stream": (lambda app: app.stream("t", "t"), "named twice"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_topic_is_read_in_one_way(how: str) -> None:
    make, problem = REFUSED[how]
    with pytest.raises(TopologyError, match=rf"test_topics.py:\d+: .*{problem}"):
        make(App("topics"))


def test_reading_a_topic_twice_in_the_same_way_gives_the_same_stream() -> None:
    app = App("topics")
    app.stream("in", value=int).to("a")
    app.stream("in", value=int).to("b")
    with TestDriver(app) as driver:
        driver.input("in").pipe(1)
        assert (driver.output("a").read_values(), driver.output("b").read_values()) == ([1], [1])


def test_several_topics_are_one_stream() -> None:
    app = App("topics")
    app.stream("a", "b", value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("b").pipe(2)
        driver.input("a").pipe(1)
        assert driver.output("out").read_values() == [2, 1]


def test_a_pattern_reads_all_topics_whose_whole_names_match() -> None:
    app = App("topics")
    app.stream(pattern=re.compile(r"log-\d+"), value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("log-1").pipe(1)
        driver.input("log-22").pipe(2)
        assert driver.output("out").read_values() == [1, 2]
        with pytest.raises(TopologyError, match="does not read a topic 'log-1-old'"):
            driver.input("log-1-old")


@pytest.mark.parametrize("arguments", [{}, {"topics": ("a",), "pattern": "b"}])
def test_either_topics_or_a_pattern_are_required(arguments: dict[str, Any]) -> None:
    with pytest.raises(TopologyError, match="pass either topics or a pattern"):
        App("topics").stream(*arguments.pop("topics", ()), **arguments)


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"'\(' is not a valid regular expression"):
        App("topics").stream(pattern="(")


def test_a_topic_that_is_written_may_be_read_back() -> None:
    app = App("topics")
    app.stream("in", value=int).to("middle")
    app.stream("middle", value=int).map_values(lambda v: v + 1, value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        driver.input("middle").pipe("k", 5)
        assert driver.output("out").read_values() == [2, 6]


def test_an_invalid_serde_is_refused_where_it_is_passed() -> None:
    with pytest.raises(Exception, match="no serde named 'strnig'") as caught:
        App("topics").stream("in", key="strnig")
    assert "did you mean 'string'" in str(caught.value)
