"""Tables with a time to live, ttl=…: a row that was not updated for longer is deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App


def expiring(ttl: Any = 10) -> App:
    app = App("test")
    app.table("in", value=str, ttl=ttl, store="rows", name="table").to_stream().to("out")
    return app


def test_a_row_expires_exactly_after_its_time_to_live() -> None:
    driver = run(expiring(10), ("a", "x", 0), ("b", "y", 10))
    assert driver.store("rows").get("a") == "x"
    send(driver, ("b", "z", 11))
    assert driver.store("rows").get("a") is None


def test_the_deletion_follows_the_record_that_advanced_time_and_has_the_time_of_expiry() -> None:
    driver = run(expiring(10), ("a", "x", 0), ("b", "y", 50))
    assert rows(driver) == [("a", "x", 0), ("b", "y", 50), ("a", None, 10)]


def test_an_update_extends_the_life_of_the_row_also_with_an_equal_value() -> None:
    driver = run(expiring(10), ("a", "x", 0), ("a", "x", 5), ("b", "y", 15))
    assert driver.store("rows").get("a") == "x"
    send(driver, ("b", "y", 16))
    assert rows(driver)[-1] == ("a", None, 15)


def test_an_update_after_the_time_of_expiry_is_applied_before_the_row_is_deleted() -> None:
    driver = run(expiring(10), ("a", "x", 0), ("a", "y", 50))
    assert rows(driver) == [("a", "x", 0), ("a", "y", 50)]


def test_an_out_of_order_update_does_not_shorten_the_life_of_the_row() -> None:
    driver = run(expiring(10), ("a", "x", 20), ("a", "y", 5), ("b", "z", 30))
    assert driver.store("rows").get("a") == "y"
    send(driver, ("b", "z", 31))
    assert rows(driver)[-1] == ("a", None, 30)


def test_rows_of_equal_times_expire_together() -> None:
    driver = run(expiring(10), ("a", "x", 5), ("b", "x", 5), ("c", "x", 16))
    assert rows(driver)[3:] == [("a", None, 15), ("b", None, 15)]


def test_each_row_expires_at_its_own_time() -> None:
    driver = run(expiring(10), ("b", "x", 3), ("a", "x", 1), ("c", "x", 2), ("d", "x", 100))
    assert sorted(rows(driver)[4:]) == [("a", None, 11), ("b", None, 13), ("c", None, 12)]


def test_a_row_expires_independently_of_younger_rows() -> None:
    driver = run(expiring(10), ("b", "x", 0), ("a", "x", 5), ("c", "x", 11))
    assert rows(driver)[3:] == [("b", None, 10)]


def test_a_row_that_was_deleted_does_not_expire_again() -> None:
    driver = run(expiring(10), ("a", "x", 0), ("a", None, 5), ("b", "y", 50))
    assert rows(driver) == [("a", "x", 0), ("a", None, 5), ("b", "y", 50)]


def test_an_expired_row_may_be_inserted_and_expire_again() -> None:
    driver = run(expiring(10), ("a", "x", 0), ("b", "y", 20), ("a", "z", 25), ("b", "y", 30), ("c", "x", 36))
    assert rows(driver)[2] == ("a", None, 10)
    assert rows(driver)[-1] == ("a", None, 35)


def test_a_row_that_arrives_expired_is_deleted_when_time_next_advances() -> None:
    driver = run(expiring(10), ("b", "y", 100), ("a", "x", 5))
    assert driver.store("rows").get("a") == "x"
    send(driver, ("b", "y", 101))
    assert rows(driver)[-1] == ("a", None, 15)


def test_null_keys_are_dropped_and_counted() -> None:
    driver = run(expiring(), (None, "x", 0))
    assert (rows(driver), driver.dropped) == ([], {("table", "null key"): 1})


def test_a_downstream_aggregate_is_updated() -> None:
    app = App("test")
    app.table("in", value=str, ttl=10).group_by(lambda key, word: (word, key), value=str).count().to_stream().to("out")
    driver = run(app, ("a", "x", 0), ("b", "x", 5), ("c", "y", 11))
    assert rows(driver) == [("x", 1, 0), ("x", 2, 5), ("y", 1, 11), ("x", 1, 10)]


def test_to_table_takes_a_time_to_live() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(ttl="10ms", store="rows")
    assert list(run(app, ("a", "x", 0), ("b", "y", 11)).store("rows").all()) == [("b", "y")]


def test_pending_expiry_survives_a_restart() -> None:
    driver = run(expiring(10), ("a", "x", 0))
    driver.restart()
    send(driver, ("b", "y", 50))
    assert rows(driver) == [("a", "x", 0), ("b", "y", 50), ("a", None, 10)]


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_time_to_live_that_is_not_positive_is_refused(ttl: int) -> None:
    refused(lambda: App("test").table("in", ttl=ttl), "ttl must be more than zero", hint=False)
