"""windowed_by(…, emit="close"): each window is emitted once, when it closes."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, operator"

from __future__ import annotations

from typing import Any

from tests.operators.harness import refused, rows, run, send

from millstream import App, hopping, session, sliding, tumbling, unlimited


def final(window: Any) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(window, emit="close")
    windows.count(store="counts", name="count").to_stream().to("out")
    return app


def test_a_tumbling_window_closes_when_stream_time_reaches_end_and_grace() -> None:
    driver = run(final(tumbling(10, grace=5)), ("a", "x", 3), ("a", "x", 7), ("a", "x", 5), ("b", "x", 14))
    assert rows(driver) == []
    send(driver, ("b", "x", 15))
    assert rows(driver) == [(("a", 0, 10), 3, 7)]


def test_a_hopping_window_closes_when_stream_time_reaches_end_and_grace() -> None:
    driver = run(final(hopping(10, 5, grace=2)), ("a", "x", 7), ("b", "x", 11))
    assert rows(driver) == []
    send(driver, ("b", "x", 12))
    assert rows(driver) == [(("a", 0, 10), 1, 7)]
    send(driver, ("b", "x", 17))
    assert rows(driver)[1:] == [(("a", 5, 15), 1, 7), (("b", 5, 15), 2, 12)]


def test_a_sliding_window_closes_when_stream_time_has_passed_end_and_grace() -> None:
    driver = run(final(sliding(10, grace=5)), ("a", "x", 20), ("b", "x", 25))
    assert rows(driver) == []
    send(driver, ("b", "x", 26))
    assert rows(driver) == [(("a", 10, 20), 1, 20)]


def test_a_record_before_the_difference_of_a_sliding_window_closes_no_window_but_the_next_one_does() -> None:
    driver = run(final(sliding(10)), ("a", "x", 0), ("b", "x", 9))
    send(driver, ("b", "x", 11))
    # [0, 10] of both keys; b has [10, 20] and [1, 11] open
    assert rows(driver) == [(("a", 0, 10), 1, 0), (("b", 0, 10), 1, 9)]


def test_a_session_closes_when_stream_time_has_passed_end_gap_and_grace() -> None:
    driver = run(final(session(10, grace=5)), ("a", "x", 0), ("a", "x", 3), ("b", "x", 18))
    assert rows(driver) == []
    send(driver, ("b", "x", 19))
    assert rows(driver) == [(("a", 0, 3), 2, 3)]


def test_a_session_that_was_merged_into_another_is_not_emitted() -> None:
    driver = run(final(session(10, grace=100)), ("a", "x", 0), ("a", "x", 20), ("a", "x", 10), ("b", "x", 1_000))
    assert rows(driver) == [(("a", 0, 20), 3, 20)]


def test_a_jump_in_time_loses_no_tumbling_window() -> None:
    driver = run(final(tumbling(10, grace=50)), *(("a", "x", time) for time in (5, 15, 25, 10**9)))
    assert rows(driver) == [(("a", 0, 10), 1, 5), (("a", 10, 20), 1, 15), (("a", 20, 30), 1, 25)]


def test_a_jump_in_time_loses_no_hopping_window() -> None:
    driver = run(final(hopping(10, 5)), ("a", "x", 7), ("b", "x", 10**9))
    assert rows(driver) == [(("a", 0, 10), 1, 7), (("a", 5, 15), 1, 7)]


def test_a_jump_in_time_loses_no_sliding_window() -> None:
    driver = run(final(sliding(10, grace=5)), ("a", "x", 20), ("a", "x", 25), ("b", "x", 10**9))
    assert rows(driver) == [(("a", 10, 20), 1, 20), (("a", 15, 25), 2, 25), (("a", 21, 31), 1, 25)]


def test_a_jump_in_time_loses_no_session() -> None:
    driver = run(final(session(10, grace=50)), ("a", "x", 0), ("a", "x", 20), ("b", "x", 10**9))
    assert rows(driver) == [(("a", 0, 0), 1, 0), (("a", 20, 20), 1, 20)]


def test_time_windows_that_close_together_are_emitted_by_start_then_key() -> None:
    driver = run(final(tumbling(10, grace=50)), ("b", "x", 15), ("a", "x", 15), ("c", "x", 5), ("d", "x", 1_000))
    assert [key for key, _, _ in rows(driver)] == [("c", 0, 10), ("a", 10, 20), ("b", 10, 20)]


def test_sessions_that_close_together_are_emitted_by_end_then_start_then_key() -> None:
    records = [("b", 5), ("a", 5), ("c", 0), ("c", 5), ("d", 4), ("e", 1_000)]
    driver = run(final(session(10, grace=50)), *((key, "x", time) for key, time in records))
    assert [key for key, _, _ in rows(driver)] == [("d", 4, 4), ("c", 0, 5), ("a", 5, 5), ("b", 5, 5)]


def test_the_record_that_closes_a_window_is_aggregated_first() -> None:
    # the record is late for the window that it closes
    driver = run(final(tumbling(10)), ("a", "x", 5), ("a", "x", 10))
    assert rows(driver) == [(("a", 0, 10), 1, 5)]
    assert driver.store("counts").fetch("a", 10) == 1


def test_a_late_record_is_dropped_and_counted_and_emits_nothing() -> None:
    driver = run(final(tumbling(10)), ("a", "x", 5), ("a", "x", 10), ("a", "x", 6), ("a", "x", 20))
    assert rows(driver) == [(("a", 0, 10), 1, 5), (("a", 10, 20), 1, 10)]
    assert driver.dropped == {("count", "late"): 1}


def test_null_keys_close_nothing_and_null_values_do() -> None:
    driver = run(final(tumbling(10)), ("a", "x", 5), (None, "x", 50))
    assert rows(driver) == []
    send(driver, ("b", None, 50))
    assert rows(driver) == [(("a", 0, 10), 1, 5)]


def test_a_row_that_a_null_aggregate_deleted_is_not_emitted() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10), emit="close")
    windows.aggregate(lambda: 0, lambda word, n: None if word == "stop" else n + 1, value=int).to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("a", "stop", 2), ("b", "x", 3), ("b", "x", 10))
    assert rows(driver) == [(("b", 0, 10), 1, 3)]


def test_headers_are_those_of_the_record_that_closed_the_window() -> None:
    driver = run(final(tumbling(10)), ("a", "x", 5, {"n": "1"}), ("a", "x", 10, {"n": "2"}))
    assert driver.output("out").read().headers == (("n", b"2"),)


def test_a_window_is_emitted_once_even_across_a_restart() -> None:
    driver = run(final(tumbling(10, grace=5)), ("a", "x", 5), ("b", "x", 15))
    driver.restart()
    send(driver, ("b", "x", 16), ("b", "x", 30))
    assert rows(driver) == [(("a", 0, 10), 1, 5), (("b", 10, 20), 2, 16)]


def test_an_unlimited_window_never_closes_so_it_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.windowed_by(unlimited(), emit="close"), "unlimited")


def test_an_unknown_value_of_emit_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.windowed_by(tumbling(10), emit="final"), "emit='final'", hint=False)
