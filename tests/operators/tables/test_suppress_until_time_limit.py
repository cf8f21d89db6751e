"""Table.suppress(until_time_limit(…)): at most one update of a row in a span of stream time."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App, MillstreamError, until_time_limit


def limited(limit: Any, **options: Any) -> App:
    app = App("test")
    app.table("in", value=str, name="rows").suppress(until_time_limit(limit, **options)).to_stream().to("out")
    return app


def test_the_last_update_is_emitted_when_the_limit_has_passed_since_the_first() -> None:
    driver = run(limited(10), ("a", "x", 0), ("a", "y", 5), ("b", "z", 9))
    assert rows(driver) == []
    send(driver, ("c", "z", 10))
    assert rows(driver) == [("a", "y", 5)]


def test_an_update_does_not_extend_the_wait_and_the_next_one_starts_a_new_limit() -> None:
    driver = run(limited(10), ("a", "1", 0), ("a", "2", 9), ("a", "3", 11), ("a", "4", 20), ("a", "5", 21))
    # the update at 11 is within the wait that started at 0; the next wait starts at 20
    assert rows(driver) == [("a", "3", 11)]
    send(driver, ("a", "6", 30))
    assert rows(driver) == [("a", "3", 11), ("a", "6", 30)]


def test_a_limit_of_zero_emits_every_update() -> None:
    assert rows(run(limited(0), ("a", "x", 1), ("a", "y", 2))) == [("a", "x", 1), ("a", "y", 2)]


def test_deletions_are_emitted() -> None:
    driver = run(limited(10), ("a", "x", 0), ("a", None, 5), ("b", "z", 10))
    assert rows(driver) == [("a", None, 5)]


def test_null_keys_are_dropped_by_the_table() -> None:
    driver = run(limited(0), (None, "x", 1))
    assert (rows(driver), driver.dropped) == ([], {("rows", "null key"): 1})


def test_an_out_of_order_row_waits_from_its_own_time() -> None:
    driver = run(limited(10), ("a", "x", 10), ("b", "y", 3), ("c", "z", 13))
    assert rows(driver) == [("b", "y", 3)]


def test_a_row_older_than_the_limit_is_emitted_at_once() -> None:
    driver = run(limited(10), ("a", "x", 20), ("b", "y", 10), ("c", "z", 11))
    assert rows(driver) == [("b", "y", 10)]


def test_rows_that_expire_together_are_emitted_by_time_then_key() -> None:
    driver = run(limited(10), ("b", "x", 2), ("a", "x", 2), ("c", "x", 1), ("d", "x", 50))
    assert [key for key, _, _ in rows(driver)] == ["c", "a", "b"]


def test_a_downstream_aggregate_subtracts_the_value_last_emitted() -> None:
    app = App("test")
    table = app.table("in", value=int).suppress(until_time_limit(10))
    table.group_by(lambda n: ("all", n), value=int).reduce(lambda a, n: a + n, lambda a, n: a - n).to_stream().to("out")
    driver = run(app, ("a", 1, 0), ("a", 2, 5), ("b", 10, 10), ("a", 3, 12), ("c", 0, 22))
    # a is emitted as 2, never as 1; b as 10; then a as 3, for which 2 is subtracted
    assert rows(driver) == [("all", 2, 5), ("all", 12, 10), ("all", 13, 12)]


def test_if_too_many_rows_are_buffered_the_oldest_are_emitted_early() -> None:
    driver = run(limited("1h", max_records=2), ("a", "x", 5), ("b", "x", 3), ("a", "y", 6), ("c", "x", 7))
    assert rows(driver) == [("b", "x", 3)]


def test_if_too_many_bytes_are_buffered_the_oldest_are_emitted_early() -> None:
    # a row is its key (1 byte) and its value
    driver = run(limited("1h", max_bytes=6), ("a", "xx", 1), ("b", "yy", 2))
    assert rows(driver) == []
    send(driver, ("c", "z", 3))
    assert rows(driver) == [("a", "xx", 1)]
    send(driver, ("b", "yyyyy", 4))
    assert rows(driver) == [("a", "xx", 1), ("b", "yyyyy", 4)]


def test_with_shut_down_too_many_buffered_rows_stop_the_application() -> None:
    driver = run(limited("1h", max_records=1, when_full="shut_down"), ("a", "x", 1), ("a", "y", 2))
    with pytest.raises(MillstreamError, match="2 rows"):
        send(driver, ("b", "x", 3))


def test_with_shut_down_too_many_buffered_bytes_stop_the_application() -> None:
    driver = run(limited("1h", max_bytes=3, when_full="shut_down"), ("a", "xx", 1))
    with pytest.raises(MillstreamError, match="4 bytes"):
        send(driver, ("a", "xxx", 2))


def test_the_buffer_survives_a_restart() -> None:
    driver = run(limited(10), ("a", "x", 0))
    driver.restart()
    send(driver, ("b", "y", 10))
    assert rows(driver) == [("a", "x", 0)]


def test_an_unknown_value_of_when_full_is_refused() -> None:
    refused(lambda: until_time_limit(10, when_full="drop"), "'emit_early'", "'shut_down'", hint=False)


def test_a_negative_limit_is_refused() -> None:
    refused(lambda: until_time_limit(-1), "limit", hint=False)


@pytest.mark.parametrize("option", ["max_records", "max_bytes"])
def test_a_negative_bound_is_refused(option: str) -> None:
    refused(lambda: until_time_limit(10, **{option: -1}), option, hint=False)
