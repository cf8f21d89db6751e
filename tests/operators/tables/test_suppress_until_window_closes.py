"""Table.suppress(until_window_closes()): emits one final result for each window."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App, Materialized, MillstreamError, hopping, session, sliding, tumbling, until_window_closes


def counts(window: Any, **options: Any) -> App:
    app = App("test")
    table = app.stream("in", value=str).group_by_key().windowed_by(window).count()
    table.suppress(until_window_closes(**options)).to_stream().to("out")
    return app


def test_a_window_is_emitted_once_with_its_last_value_and_its_timestamp() -> None:
    driver = run(counts(tumbling(10)), ("a", "x", 1), ("a", "x", 7), ("a", "x", 3), ("a", "x", 12))
    assert rows(driver) == [(("a", 0, 10), 3, 7)]


def test_a_tumbling_window_closes_when_stream_time_reaches_end_and_grace() -> None:
    driver = run(counts(tumbling(10, grace=5)), ("a", "x", 0), ("b", "x", 14))
    assert rows(driver) == []
    send(driver, ("b", "x", 15))
    assert rows(driver) == [(("a", 0, 10), 1, 0)]


def test_a_hopping_window_closes_when_stream_time_reaches_end_and_grace() -> None:
    driver = run(counts(hopping(10, 5)), ("a", "x", 7), ("b", "x", 9))
    assert rows(driver) == []
    send(driver, ("b", "x", 10))
    # [0, 10) is closed, [5, 15) is not
    assert rows(driver) == [(("a", 0, 10), 1, 7), (("b", 0, 10), 1, 9)]


def test_a_sliding_window_closes_when_stream_time_reaches_end_and_grace() -> None:
    driver = run(counts(sliding(10, grace=5)), ("a", "x", 20), ("b", "x", 24))
    assert rows(driver) == []
    send(driver, ("b", "x", 25))
    assert rows(driver) == [(("a", 10, 20), 1, 20)]


def test_without_grace_a_sliding_window_is_emitted_with_every_update() -> None:
    driver = run(counts(sliding(10)), ("a", "x", 20), ("a", "x", 20))
    assert rows(driver) == [(("a", 10, 20), 1, 20), (("a", 10, 20), 2, 20)]


def test_a_session_closes_when_stream_time_reaches_end_gap_and_grace() -> None:
    driver = run(counts(session(10, grace=5)), ("a", "x", 0), ("a", "x", 3), ("b", "x", 17))
    assert rows(driver) == []
    send(driver, ("b", "x", 18))
    assert rows(driver) == [(("a", 0, 3), 2, 3)]


def test_deletions_are_not_emitted() -> None:
    # the session [0, 0] was deleted when it grew to [0, 3]
    driver = run(counts(session(5)), ("a", "x", 0), ("a", "x", 3), ("b", "x", 50))
    assert rows(driver) == [(("a", 0, 3), 2, 3)]


def test_a_row_that_a_filter_deletes_before_the_window_closes_is_not_emitted() -> None:
    app = App("test")
    table = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10)).count()
    table.filter(lambda n: n == 1).suppress(until_window_closes()).to_stream().to("out")
    assert rows(run(app, ("a", "x", 0), ("a", "x", 1), ("b", "x", 2), ("b", "x", 20))) == [(("b", 0, 10), 1, 2)]


def test_windows_that_close_together_are_emitted_by_end_then_key() -> None:
    driver = run(counts(tumbling(10)), ("b", "x", 1), ("a", "x", 5), ("a", "x", 3), ("c", "x", 12), ("d", "x", 99))
    # [0, 10) closes with the fourth record, [10, 20) with the fifth
    assert [key for key, _, _ in rows(driver)] == [("a", 0, 10), ("b", 0, 10), ("c", 10, 20)]


def test_a_jump_in_time_loses_nothing() -> None:
    driver = run(counts(tumbling(10, grace=100)), *(("a", "x", time) for time in (5, 15, 25, 100_000)))
    assert [key for key, _, _ in rows(driver)] == [("a", 0, 10), ("a", 10, 20), ("a", 20, 30)]


def test_a_dropped_late_record_does_not_emit_a_window_again() -> None:
    driver = run(counts(tumbling(10)), ("a", "x", 5), ("a", "x", 10), ("a", "x", 6))
    assert rows(driver) == [(("a", 0, 10), 1, 5)]
    assert driver.dropped == {("in-count", "late"): 1}


def test_null_keys_are_dropped_and_null_values_are_counted() -> None:
    driver = run(counts(tumbling(10)), (None, "x", 5), ("a", None, 6), ("b", "x", 10))
    assert rows(driver) == [(("a", 0, 10), 1, 6)]
    assert driver.dropped == {("in-count", "null key"): 1}


def test_headers_are_those_of_the_last_update_not_of_the_record_that_closed_the_window() -> None:
    driver = run(counts(tumbling(10)), ("a", "x", 1, {"n": "1"}), ("a", "x", 2, {"n": "2"}), ("a", "x", 10, {"n": "3"}))
    assert driver.output("out").read().headers == (("n", b"2"),)


def test_too_many_buffered_rows_stop_the_application() -> None:
    driver = run(counts(tumbling(10), max_records=2), ("a", "x", 1), ("b", "x", 2), ("a", "x", 3))
    with pytest.raises(MillstreamError, match="3 rows"):
        send(driver, ("c", "x", 4))


def test_too_many_buffered_bytes_stop_the_application() -> None:
    # key 1 byte, start 8 bytes, count 8 bytes
    driver = run(counts(tumbling(10), max_bytes=34), ("a", "x", 1), ("b", "x", 2))
    with pytest.raises(MillstreamError, match="51 bytes"):
        send(driver, ("c", "x", 4))


def test_the_buffer_survives_a_restart() -> None:
    driver = run(counts(tumbling(10)), ("a", "x", 1), ("a", "x", 2))
    driver.restart()
    send(driver, ("a", "x", 10))
    assert rows(driver) == [(("a", 0, 10), 2, 2)]


def test_a_table_without_windows_is_refused() -> None:
    table = App("test").stream("in").group_by_key().count()
    refused(lambda: table.suppress(until_window_closes()), "only windows close", "until_time_limit")


def test_a_versioned_table_is_refused() -> None:
    table = App("test").table("in", store=Materialized("rows", history="1h"))
    refused(lambda: table.suppress(until_window_closes()), "versioned")


def test_an_object_that_is_not_a_suppression_is_refused() -> None:
    table = App("test").table("in")
    refused(lambda: table.suppress("10s"), "until_window_closes", "until_time_limit", hint=False)
