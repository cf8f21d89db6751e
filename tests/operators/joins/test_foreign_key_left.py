"""Left join by foreign key: each left row with the right row of its foreign key, if there is one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import on_left, on_right, play, run, spell

from millstream import App, TestDriver


def author(value: str) -> str | None:
    """Returns the foreign key of a left value ``author/title``; None without an author."""
    return value.partition("/")[0] or None


def joined(store: Any = None) -> App:
    app = App("joins")
    tables = app.table("left", value=str), app.table("right", value=str)
    result = tables[0].left_join(tables[1], lambda a, b: f"{spell(a)},{spell(b)}", on=author, value=str, store=store)
    result.to_stream().to("out")
    return app


@pytest.mark.parametrize("store", [None, "joined"])
def test_the_example_of_the_documentation(store: str | None) -> None:
    steps = [
        on_right("foo", 1, key="1"),
        on_left("1", 2),
        on_left("2", 3),
        on_left("3", 4),
        on_right("bar", 5, key="3"),
        on_left("/none", 6),
        on_left("1", 7),
        on_left("10", 8, key="q"),
        on_left("10", 9, key="r"),
        on_right("baz", 10, key="10"),
    ]
    assert run(joined(store), *steps, keys=True) == {
        2: "k:1,foo@2",
        3: "k:2,null@3",
        4: "k:3,null@4",
        5: "k:3,bar@5",
        6: "k:/none,null@6",
        7: "k:1,foo@7",
        8: "q:10,null@8",
        9: "r:10,null@9",
        10: "q:10,baz@10, r:10,baz@10",
    }


def test_a_null_foreign_key_is_joined_with_null_and_not_dropped() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left("/none", 5)) == {1: "/none,null@5"}
        assert driver.dropped == {}


def test_a_right_deletion_leaves_the_left_row() -> None:
    steps = [on_right("foo", 1, key="1"), on_left("1", 2), on_right(None, 3, key="1"), on_right(None, 4, key="1")]
    assert run(joined(), *steps) == {2: "1,foo@2", 3: "1,null@3", 4: "1,null@4"}


def test_a_left_deletion_has_the_time_of_the_left_record() -> None:
    steps = [on_right("foo", 50, key="1"), on_left("1", 2), on_left(None, 3), on_left(None, 4)]
    assert run(joined(), *steps) == {2: "1,foo@50", 3: "null@3"}


def test_deleting_an_absent_left_row_emits_nothing() -> None:
    assert run(joined(), on_left(None, 1)) == {}


def test_after_a_change_of_the_foreign_key_the_former_right_row_has_no_effect() -> None:
    steps = [on_left("1", 1), on_left("2", 2), on_right("foo", 3, key="1"), on_right("bar", 4, key="2")]
    assert run(joined(), *steps) == {1: "1,null@1", 2: "2,null@2", 4: "2,bar@4"}


def test_a_change_of_the_left_value_alone_updates_the_result() -> None:
    steps = [on_right("foo", 9, key="1"), on_left("1/a", 1), on_left("1/b", 2)]
    assert run(joined(), *steps) == {2: "1/a,foo@9", 3: "1/b,foo@9"}


def test_the_store_of_a_join_can_be_queried() -> None:
    with TestDriver(joined("joined")) as driver:
        play(driver, on_right("foo", 1, key="1"), on_left("1", 2), on_left("2", 2, key="x"))
        assert list(driver.store("joined").all()) == [("k", "1,foo"), ("x", "2,null")]
