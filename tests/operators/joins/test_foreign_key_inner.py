"""Inner join by foreign key: each left row with the right row of its foreign key."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import on_left, on_right, play, run, spell

from millstream import App, Materialized, TestDriver, col, left, right


def author(value: str) -> str | None:
    """Returns the foreign key of a left value ``author/title``; None without an author."""
    return value.partition("/")[0] or None


def joined(store: Any = None, *, left: Any = None, right: Any = None, on: Any = author) -> App:
    app = App("joins")
    tables = app.table("left", value=str, store=left), app.table("right", value=str, store=right)
    result = tables[0].join(tables[1], lambda a, b: f"{a},{spell(b)}", on=on, value=str, store=store, name="join")
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
        3: "k:null@3",
        4: "k:null@4",
        5: "k:3,bar@5",
        6: "k:null@6",
        7: "k:1,foo@7",
        10: "q:10,baz@10, r:10,baz@10",
    }


def test_a_left_change_has_the_greater_time_and_a_right_change_its_own() -> None:
    steps = [on_right("foo", 50, key="1"), on_left("1", 2), on_right("bar", 1, key="1"), on_left("1/x", 3)]
    assert run(joined(), *steps) == {2: "1,foo@50", 3: "1,bar@1", 4: "1/x,bar@3"}


def test_a_right_change_updates_all_its_left_rows_in_key_order() -> None:
    steps = [on_left("1/b", 1, key="b"), on_left("1/a", 2, key="a"), on_left("2", 3, key="aa")]
    outputs = run(joined(), *steps, on_right("foo", 4, key="1"), on_right("bar", 5, key="1"), keys=True)
    assert outputs == {4: "a:1/a,foo@4, b:1/b,foo@4", 5: "a:1/a,bar@5, b:1/b,bar@5"}


def test_right_keys_with_a_common_prefix_have_separate_rows() -> None:
    steps = [on_left("1", 1, key="1x"), on_left("11", 2, key="x"), on_right("foo", 3, key="1")]
    assert run(joined(), *steps, keys=True) == {3: "1x:1,foo@3"}


def test_after_a_change_of_the_foreign_key_the_former_right_row_has_no_effect() -> None:
    steps = [on_left("1", 1), on_left("2", 2), on_right("foo", 3, key="1"), on_right("bar", 4, key="2")]
    assert run(joined(), *steps) == {2: "null@2", 4: "2,bar@4"}


def test_a_right_deletion_deletes_the_row_each_time() -> None:
    steps = [on_right("foo", 1, key="1"), on_left("1", 2), on_right(None, 3, key="1"), on_right(None, 4, key="1")]
    assert run(joined(), *steps) == {2: "1,foo@2", 3: "null@3", 4: "null@4"}


def test_a_left_deletion_deletes_the_row_with_the_greater_time() -> None:
    steps = [on_right("foo", 50, key="1"), on_left("1", 2), on_left(None, 3), on_right("bar", 60, key="1")]
    assert run(joined(), *steps) == {2: "1,foo@50", 3: "null@50"}


def test_a_left_row_that_never_matched_is_deleted_once() -> None:
    assert run(joined(), on_left("1", 1), on_left(None, 2), on_left(None, 3)) == {2: "null@2"}


def test_deleting_an_absent_left_row_emits_nothing() -> None:
    assert run(joined(), on_left(None, 1)) == {}


def test_a_null_foreign_key_is_dropped_and_counted_and_deletes_the_row() -> None:
    with TestDriver(joined()) as driver:
        steps = [on_right("foo", 1, key="1"), on_left("1", 2), on_left("/none", 3), on_left("/none", 4, key="new")]
        assert play(driver, *steps) == {2: "1,foo@2", 3: "null@3"}
        assert [n for (_, reason), n in driver.dropped.items() if reason == "null foreign key"] == [2]


def test_null_keys_are_dropped_on_both_sides() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left("1", 1, key=None), on_right("foo", 1, key=None)) == {}
        assert sum(driver.dropped.values()) == 2


def test_an_answer_to_a_left_row_that_has_changed_since_is_ignored() -> None:
    # One record causes two changes of the left row before the answer to the first arrives.
    app = App("joins")
    changes = app.stream("left", value=str).flat_map_values(str.split, value=str).to_table()
    result = changes.join(app.table("right", value=str), lambda a, b: f"{a},{b}", on=author, value=str)
    result.to_stream().to("out")
    steps = [on_right("foo", 1, key="1"), on_right("bar", 2, key="2"), on_left("1 2", 3), on_left("2/x 2/y", 4)]
    assert run(app, *steps) == {3: "2,bar@3", 4: "2/y,bar@4"}


def test_versioned_tables_ignore_out_of_order_changes() -> None:
    app = joined(left=Materialized("l", history="1h"), right=Materialized("r", history="1h"))
    steps = [on_left("1", 10), on_right("foo", 10, key="1"), on_left("2", 5), on_right("old", 5, key="1")]
    assert run(app, *steps) == {2: "1,foo@10"}


def test_the_store_of_a_join_can_be_queried() -> None:
    with TestDriver(joined("joined")) as driver:
        play(driver, on_right("foo", 1, key="1"), on_left("1", 2), on_left("2", 2, key="x"))
        assert list(driver.store("joined").all()) == [("k", "1,foo")]
        assert driver.store("joined", timestamped=True).get("k") == ("1,foo", 2)


def test_on_may_take_key_and_value() -> None:
    app = joined(on=lambda key, value: f"{key}{value}")
    assert run(app, on_right("foo", 1, key="k1"), on_left("1", 2)) == {2: "1,foo@2"}


def test_on_and_joiner_may_be_expressions() -> None:
    app = App("joins")
    books, authors = app.table("books"), app.table("authors")
    titles = books.join(authors, left("title") + right("name"), on=col("author"))
    titles.to_stream().to("out", value=str)
    with TestDriver(app) as driver:
        driver.input("authors").pipe("7", {"name": " by Ann"})
        driver.input("books").pipe("b1", {"title": "Mills", "author": "7"})
        assert driver.output("out").read_pairs() == [("b1", "Mills by Ann")]


def test_a_table_can_be_joined_with_itself() -> None:
    app = App("joins")
    staff = app.table("staff", value=str)
    staff.join(staff, lambda a, b: f"{a} under {b}", on=author, value=str).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("staff").pipe("eve", "/Eve")
        driver.input("staff").pipe("ann", "eve/Ann")
        driver.input("staff").pipe("eve", "/Dr Eve")
        assert driver.output("out").read_pairs() == [("ann", "eve/Ann under /Eve"), ("ann", "eve/Ann under /Dr Eve")]
