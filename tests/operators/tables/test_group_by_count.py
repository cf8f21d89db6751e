"""Table.group_by(…).count: the current number of rows of each group."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc, return-value"

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App, Materialized, TestDriver


def by_region(**options: Any) -> App:
    """Returns the counts of users (key) by region (value); '?' is no region."""
    app = App("test")
    users = app.table("in", value=str, name="users", **options)
    users.group_by(lambda user, region: (None if region == "?" else region, user), value=str).count(
        store="counts"
    ).to_stream().to("out")
    return app


def test_each_row_is_counted_in_its_group() -> None:
    driver = run(by_region(), ("alice", "E", 1), ("bob", "A", 2), ("carol", "A", 3))
    assert rows(driver) == [("E", 1, 1), ("A", 1, 2), ("A", 2, 3)]


def test_a_row_that_changes_its_group_is_subtracted_from_the_old_one_then_added_to_the_new_one() -> None:
    driver = run(by_region(), ("alice", "E", 1), ("bob", "A", 2), ("alice", "A", 3))
    assert rows(driver)[2:] == [("E", 0, 3), ("A", 2, 3)]


def test_a_row_that_stays_in_its_group_emits_one_update() -> None:
    driver = run(by_region(), ("alice", "E", 1), ("alice", "E", 2))
    assert rows(driver) == [("E", 1, 1), ("E", 1, 2)]


def test_a_deleted_row_is_subtracted_from_its_group_and_zero_remains() -> None:
    driver = run(by_region(), ("alice", "E", 1), ("alice", None, 2))
    assert rows(driver) == [("E", 1, 1), ("E", 0, 2)]
    assert driver.store("counts").get("E") == 0


def test_deleting_an_absent_row_emits_nothing() -> None:
    driver = run(by_region(), ("alice", None, 1))
    assert rows(driver) == []


def test_null_keys_are_dropped_by_the_table() -> None:
    driver = run(by_region(), (None, "E", 1))
    assert (rows(driver), driver.dropped) == ([], {("users", "null key"): 1})


def test_a_row_with_a_null_group_is_not_counted() -> None:
    driver = run(by_region(), ("alice", "?", 1), ("alice", "E", 2), ("alice", "?", 3))
    assert rows(driver) == [("E", 1, 2), ("E", 0, 3)]


def test_the_timestamp_of_a_group_never_decreases() -> None:
    driver = run(by_region(), ("alice", "E", 9), ("bob", "E", 4))
    assert rows(driver) == [("E", 1, 9), ("E", 2, 9)]


def test_updates_of_equal_timestamps_are_all_counted() -> None:
    driver = run(by_region(), ("alice", "E", 5), ("bob", "E", 5), ("alice", None, 5))
    assert rows(driver) == [("E", 1, 5), ("E", 2, 5), ("E", 1, 5)]


def test_an_older_version_of_a_versioned_table_is_ignored() -> None:
    driver = run(by_region(store=Materialized("users", history=100)), ("alice", "E", 9), ("alice", "A", 4))
    assert rows(driver) == [("E", 1, 9)]


def test_counts_can_be_grouped_again_because_the_first_update_of_a_row_has_no_old_value() -> None:
    app = App("test")
    sizes = app.table("in", value=str).group_by(lambda user, region: (region, user), value=str).count()
    sizes.group_by(lambda region, n: (str(n), region), value=str).count().to_stream().to("out")
    driver = run(app, ("alice", "E", 1), ("bob", "E", 2))
    assert rows(driver) == [("1", 1, 1), ("1", 0, 2), ("2", 1, 2)]


def test_the_topic_is_named_after_the_grouping_and_shared_by_its_aggregates() -> None:
    app = App("test")
    grouped = app.table("in", value=str).group_by(lambda user, region: (region, user), value=str, name="regions")
    grouped.count(store="first")
    grouped.count(store="second")
    driver = run(app, ("alice", "E", 1))
    assert driver.produced_topics == {"test-regions-repartition"}
    assert (driver.store("first").get("E"), driver.store("second").get("E")) == (1, 1)


def test_groups_aggregate_rows_of_all_partitions() -> None:
    driver = send(TestDriver(by_region(), partitions=3), *((user, "E", 0) for user in "abcdef"))
    assert driver.store("counts").get("E") == 6


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").table("in").group_by(lambda a, b, c: (a, b)), "group_by", "3 arguments")


def test_a_function_that_returns_no_pair_stops_the_application() -> None:
    app = App("test")
    app.table("in", value=int).group_by(lambda n: n).count().to_stream().to("out")
    with pytest.raises(Exception, match=r"test_group_by_count\.py:\d+ in <lambda>"):
        run(app, ("a", 1, 0))
