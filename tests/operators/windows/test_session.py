"""Session windows: records of a key that are no more than a gap apart; both ends are inclusive."""

from __future__ import annotations

from typing import Any

from tests.operators.harness import refused, rows, run, send

from millstream import App, Materialized, session


def counting(gap: int = 10, retention: int | None = None, **options: Any) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(session(gap, **options))
    windows.count(store=Materialized("counts", retention=retention), name="count").to_stream().to("out")
    return app


def lists(**options: Any) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(session(10, **options))
    windows.aggregate(
        list, lambda word, words: [*words, word], lambda left, right: left + right, store="words"
    ).to_stream().to("out")
    return app


def test_a_growing_session_is_deleted_before_it_is_emitted_again() -> None:
    driver = run(counting(), ("a", "x", 0), ("a", "x", 5))
    assert rows(driver) == [(("a", 0, 0), 1, 0), (("a", 0, 0), None, 0), (("a", 0, 5), 2, 5)]


def test_records_exactly_the_gap_apart_are_one_session_and_a_millisecond_more_is_two() -> None:
    assert rows(run(counting(), ("a", "x", 0), ("a", "x", 10)))[-1] == (("a", 0, 10), 2, 10)
    assert rows(run(counting(), ("a", "x", 0), ("a", "x", 11)))[-1] == (("a", 11, 11), 1, 11)


def test_a_record_between_two_sessions_merges_them() -> None:
    driver = run(counting(grace=5), ("a", "x", 0), ("a", "x", 5), ("a", "x", 17), ("a", "x", 11))
    assert rows(driver)[4:] == [(("a", 0, 5), None, 5), (("a", 17, 17), None, 17), (("a", 0, 17), 4, 17)]


def test_a_record_with_the_time_of_a_session_updates_it_in_place() -> None:
    driver = run(counting(), ("a", "x", 5), ("a", "x", 5))
    assert rows(driver) == [(("a", 5, 5), 1, 5), (("a", 5, 5), 2, 5)]


def test_a_record_inside_a_session_replaces_it_with_the_same_bounds() -> None:
    driver = run(counting(), ("a", "x", 0), ("a", "x", 8), ("a", "x", 4))
    assert rows(driver)[3:] == [(("a", 0, 8), None, 8), (("a", 0, 8), 3, 8)]


def test_each_key_has_its_own_sessions() -> None:
    assert rows(run(counting(), ("a", "x", 0), ("b", "x", 5))) == [(("a", 0, 0), 1, 0), (("b", 5, 5), 1, 5)]


def test_null_keys_are_dropped_and_counted_and_do_not_advance_time() -> None:
    driver = run(counting(), (None, "x", 100), ("a", "x", 0))
    assert rows(driver) == [(("a", 0, 0), 1, 0)]
    assert driver.dropped == {("count", "null key"): 1}


def test_null_values_are_counted() -> None:
    assert rows(run(counting(), ("a", None, 0), ("a", None, 0))) == [(("a", 0, 0), 1, 0), (("a", 0, 0), 2, 0)]


def test_a_record_is_late_when_stream_time_has_passed_its_session_gap_and_grace() -> None:
    driver = run(counting(grace=5), ("b", "x", 20), ("a", "x", 5))
    assert rows(driver)[1:] == [(("a", 5, 5), 1, 5)]
    send(driver, ("c", "x", 4))
    assert rows(driver)[2:] == []
    assert driver.dropped == {("count", "late"): 1}


def test_a_record_is_not_late_if_the_session_it_joins_is_not() -> None:
    driver = run(counting(grace=5), ("a", "x", 6), ("b", "x", 20), ("a", "x", 2))
    assert rows(driver)[2:] == [(("a", 6, 6), None, 6), (("a", 2, 6), 2, 6)]


def test_an_evicted_session_is_not_extended() -> None:
    # gap and grace are 15, so [0, 5] is evicted when 20 is put; a longer retention retains it
    records = [("a", "x", 0), ("a", "x", 5), ("a", "x", 20), ("a", "x", 12)]
    assert rows(run(counting(grace=5), *records))[-1] == (("a", 12, 20), 2, 20)
    assert rows(run(counting(grace=5, retention=100), *records))[-1] == (("a", 0, 20), 4, 20)


def test_merged_sessions_merge_their_aggregates_in_time_order_before_the_record_is_added() -> None:
    driver = run(lists(grace=100), ("a", "z", 20), ("a", "x", 0), ("a", "y", 10))
    assert rows(driver)[-1] == (("a", 0, 20), ["x", "z", "y"], 20)


def test_reduce_merges_with_the_reducer_itself() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(session(10, grace=100))
    windows.reduce(lambda words, word: f"{words}+{word}").to_stream().to("out")
    assert rows(run(app, ("a", "z", 20), ("a", "x", 0), ("a", "y", 10)))[-1] == (("a", 0, 20), "x+z+y", 20)


def test_an_aggregator_that_returns_none_deletes_the_session() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(session(10))
    windows.aggregate(
        lambda: 0, lambda word, n: None if word == "stop" else n + 1, lambda a, b: a + b, value=int, store="counts"
    ).to_stream().to("out")
    driver = run(app, ("a", "x", 0), ("a", "stop", 5), ("a", "y", 6))
    assert rows(driver)[1:] == [(("a", 0, 0), None, 0), (("a", 0, 5), None, 5), (("a", 6, 6), 1, 6)]


def test_an_update_in_place_has_the_former_value_as_the_old_one() -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(session(10)).count()
    counts.group_by(lambda windowed, n: (windowed.key, n), value=int).reduce(
        lambda total, n: total + n, lambda total, n: total - n
    ).to_stream().to("out")
    assert rows(run(app, ("a", "x", 5), ("a", "x", 5), ("a", "x", 7)))[-1] == ("a", 3, 7)


def test_sessions_have_no_headers() -> None:
    driver = run(counting(), ("a", "x", 0, {"n": "1"}))
    assert driver.output("out").read().headers == ()


def test_a_gap_of_zero_groups_records_of_equal_time() -> None:
    driver = run(counting(0, grace=5), ("a", "x", 5), ("a", "x", 5), ("a", "x", 6))
    assert rows(driver) == [(("a", 5, 5), 1, 5), (("a", 5, 5), 2, 5), (("a", 6, 6), 1, 6)]


def test_a_negative_gap_is_refused() -> None:
    refused(lambda: session(-1), "gap must not be negative", hint=False)
