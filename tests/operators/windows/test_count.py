"""group_by_key().count and group_by(…).count: the number of records of each key."""

from __future__ import annotations

from tests.operators.harness import refused, rows, run, send

from millstream import App, TestDriver


def counting() -> App:
    app = App("test")
    app.stream("in", value=str).group_by_key().count(store="counts", name="count").to_stream().to("out")
    return app


def test_every_record_updates_the_count_of_its_key() -> None:
    driver = run(counting(), ("a", "x", 1), ("b", "x", 2), ("a", "y", 3))
    assert rows(driver) == [("a", 1, 1), ("b", 1, 2), ("a", 2, 3)]
    assert list(driver.store("counts").all()) == [("a", 2), ("b", 1)]


def test_null_keys_are_dropped_and_counted() -> None:
    driver = run(counting(), (None, "x", 1), ("a", "x", 2))
    assert rows(driver) == [("a", 1, 2)]
    assert driver.dropped == {("count", "null key"): 1}


def test_null_values_are_dropped_and_counted() -> None:
    driver = run(counting(), ("a", None, 1), ("a", "x", 2), ("a", None, 3))
    assert rows(driver) == [("a", 1, 2)]
    assert driver.dropped == {("count", "null value"): 2}


def test_an_out_of_order_record_is_counted_and_the_timestamp_stays_the_greatest() -> None:
    driver = run(counting(), ("a", "x", 9), ("a", "x", 4), ("a", "x", 12))
    assert rows(driver) == [("a", 1, 9), ("a", 2, 9), ("a", 3, 12)]
    assert driver.store("counts", timestamped=True).get("a") == (3, 12)


def test_records_of_equal_timestamps_are_all_counted() -> None:
    assert rows(run(counting(), ("a", "x", 5), ("a", "x", 5))) == [("a", 1, 5), ("a", 2, 5)]


def test_without_windows_no_record_is_late() -> None:
    driver = run(counting(), ("b", "x", 1_000_000), ("a", "x", 0))
    assert rows(driver)[1:] == [("a", 1, 0)]
    assert driver.dropped == {}


def test_group_by_counts_by_a_new_key_through_a_repartition_topic() -> None:
    app = App("test")
    app.stream("in", value=str).group_by(lambda word: word, key=str, name="words").count().to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("b", "x", 2), (None, "y", 3))
    assert rows(driver) == [("x", 1, 1), ("x", 2, 2), ("y", 1, 3)]
    assert driver.produced_topics == {"out", "test-words-repartition"}


def test_records_with_a_null_group_are_dropped_and_counted_before_the_repartition_topic() -> None:
    app = App("test")
    app.stream("in", value=str).group_by(lambda word: word, name="words").count().to_stream().to("out")
    driver = run(app, ("a", None, 1))
    assert rows(driver) == []
    assert driver.dropped == {("words-repartition", "null key before repartition"): 1}


def test_all_aggregations_of_a_named_grouping_share_one_topic() -> None:
    app = App("test")
    grouped = app.stream("in", value=str).group_by(lambda word: word, key=str, name="words")
    grouped.count(store="one")
    grouped.count(store="two")
    driver = run(app, ("a", "x", 1))
    assert len(driver.output("test-words-repartition")) == 1
    assert (driver.store("one").get("x"), driver.store("two").get("x")) == (1, 1)


def test_without_a_name_each_aggregate_has_its_own_topic_named_after_its_store() -> None:
    app = App("test")
    grouped = app.stream("in", value=str).group_by(lambda word: word, key=str)
    grouped.count(store="one")
    grouped.count(store="two")
    assert run(app, ("a", "x", 1)).produced_topics == {"test-one-repartition", "test-two-repartition"}


def test_a_key_is_counted_across_the_partitions_of_its_records() -> None:
    app = App("test")
    app.stream("in", value=str).group_by(lambda word: word, key=str).count(store="counts")
    driver = send(TestDriver(app, partitions=3), *((key, "x", 0) for key in "abcdef"))
    assert driver.store("counts").get("x") == 6


def test_results_do_not_depend_on_batch_boundaries() -> None:
    records = [(key, "x", time) for time, key in enumerate("abacabadabacaba")]
    expected = rows(run(counting(), *records))
    for seed in range(5):
        assert rows(run(counting(), *records, batches="random", seed=seed)) == expected


def test_counts_survive_a_restart() -> None:
    driver = run(counting(), ("a", "x", 1))
    driver.restart()
    send(driver, ("a", "x", 2))
    assert rows(driver) == [("a", 1, 1), ("a", 2, 2)]


def test_two_groupings_of_one_name_are_refused() -> None:
    stream = App("test").stream("in", value=str)
    stream.group_by(lambda word: word, name="words").count()
    refused(lambda: stream.group_by(len, key=int, name="words").count(), "'words'", "made at test_count.py")


def test_explicit_naming_refuses_a_store_without_a_name() -> None:
    app = App("test", ensure_explicit_internal_resource_naming=True)
    refused(lambda: app.stream("in").group_by_key().count(), "name")
