"""cogroup: one aggregate over several grouped streams, each with its own aggregator."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, send

from millstream import App, TestDriver, TopologyError


def carts() -> TestDriver:
    """Returns the clicks and orders of each key in one list."""
    app = App("test")
    clicks = app.stream("clicks", value=str).group_by_key()
    orders = app.stream("orders", value=int).group_by_key()
    clicks.cogroup(lambda page, cart: [*cart, page]).cogroup(
        orders, lambda key, amount, cart: [*cart, f"{key}{amount}"]
    ).aggregate(list, store="carts").to_stream().to("out")
    return TestDriver(app)


def test_each_stream_has_its_own_aggregator_and_the_rows_are_shared() -> None:
    driver = carts()
    send(driver, ("a", "home", 1), topic="clicks")
    send(driver, ("a", 5, 2), topic="orders")
    send(driver, ("b", "home", 3), topic="clicks")
    assert rows(driver) == [("a", ["home"], 1), ("a", ["home", "a5"], 2), ("b", ["home"], 3)]
    assert driver.store("carts").get("a") == ["home", "a5"]


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    driver = carts()
    send(driver, (None, "home", 1), ("a", None, 2), topic="clicks")
    send(driver, ("a", None, 3), topic="orders")
    assert rows(driver) == []
    assert sorted(driver.dropped.values()) == [1, 1, 1]
    assert {reason for _, reason in driver.dropped} == {"null key", "null value"}


def test_the_timestamp_is_the_greatest_of_all_streams() -> None:
    driver = carts()
    send(driver, ("a", "home", 9), topic="clicks")
    send(driver, ("a", 5, 4), ("a", 6, 9), topic="orders")
    assert [time for _, _, time in rows(driver)] == [9, 9, 9]


def test_an_aggregator_that_returns_none_deletes_the_row_for_all() -> None:
    app = App("test")
    adds, resets = app.stream("adds", value=int).group_by_key(), app.stream("resets", value=str).group_by_key()
    adds.cogroup(lambda n, total: total + n).cogroup(resets, lambda word, total: None).aggregate(
        lambda: 0, value=int
    ).to_stream().to("out")
    driver = TestDriver(app)
    send(driver, ("a", 3, 1), topic="adds")
    send(driver, ("a", "now", 2), topic="resets")
    send(driver, ("a", 4, 3), topic="adds")
    assert rows(driver) == [("a", 3, 1), ("a", None, 2), ("a", 4, 3)]


def test_a_cogroup_of_one_stream_is_an_aggregate() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().cogroup(lambda n, total: total + n).aggregate(
        lambda: 0, value=int
    ).to_stream().to("out")
    driver = send(TestDriver(app), ("a", 1, 1), ("a", 2, 2))
    assert rows(driver) == [("a", 1, 1), ("a", 3, 2)]


def test_a_stream_whose_key_was_changed_is_repartitioned() -> None:
    app = App("test")
    left = app.stream("left", value=str).group_by_key()
    right = app.stream("right", value=str).group_by(lambda word: word, key=str, name="by-word")
    left.cogroup(lambda word, n: n + 1).cogroup(right, lambda word, n: n + 10).aggregate(
        lambda: 0, value=int
    ).to_stream().to("out")
    driver = TestDriver(app)
    send(driver, ("x", "q", 1), topic="left")
    send(driver, ("a", "x", 2), topic="right")
    assert rows(driver) == [("x", 1, 1), ("x", 11, 2)]
    assert driver.produced_topics == {"out", "test-by-word-repartition"}


def test_an_aggregator_that_changes_the_aggregate_in_place_changes_no_old_value() -> None:
    def add(number: int, total: dict[str, int]) -> dict[str, int]:
        total["sum"] += number
        return total

    app = App("test")
    totals = app.stream("in", value=int).group_by_key().cogroup(add).aggregate(lambda: {"sum": 0}, value=dict)
    everything = totals.group_by(lambda key, total: ("all", total["sum"]), key=str, value=int)
    everything.reduce(lambda a, n: a + n, lambda a, n: a - n).to_stream().to("out")
    driver = send(TestDriver(app), ("a", 1, 0), ("b", 2, 0), ("a", 3, 0), ("a", 4, 0))
    assert [value for _key, value, _time in rows(driver)] == [1, 3, 6, 10]


def test_rows_survive_a_restart() -> None:
    driver = carts()
    send(driver, ("a", "home", 1), topic="clicks")
    driver.restart()
    send(driver, ("a", 5, 2), topic="orders")
    assert rows(driver)[-1] == ("a", ["home", "a5"], 2)


def test_a_merger_without_session_windows_is_refused() -> None:
    cogrouped = App("test").stream("in").group_by_key().cogroup(lambda v, agg: agg)
    refused(lambda: cogrouped.aggregate(list, lambda left, right: left), "session windows need a merger")


def test_a_refused_aggregation_is_removed_from_the_topology() -> None:
    app = App("test")
    cogrouped = app.stream("in").group_by_key().cogroup(lambda v, agg: agg)
    before = app.plan().nodes
    refused(lambda: cogrouped.aggregate(lambda wrong: [], store="rows", name="carts"), "initializer", hint=False)
    assert app.plan().nodes == before
    cogrouped.aggregate(list, store="rows", name="carts")


def test_an_aggregator_of_one_argument_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    error = refused(lambda: grouped.cogroup(lambda agg: agg), "aggregator", "(value, agg)")
    assert isinstance(error, TopologyError)
