"""Stream.repartition: repartitions the stream through an internal topic."""

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, Processor, Record, join_window


class Where(Processor[str, str, str, str]):
    """Forwards the topic and the partition of each record as the value."""

    def process(self, record: Record[str, str]) -> None:
        at = self.context.record_metadata
        assert at is not None
        self.context.forward(record.with_value(f"{at.topic}/{at.partition}"))


def test_records_pass_through_the_topic_unchanged() -> None:
    app = App("test")
    app.stream("in", value=str).repartition(name="middle").to("out")
    driver = run(app, ("a", "x", 9), ("a", "y", 4), ("a", "z", 4))
    assert rows(driver) == [("a", "x", 9), ("a", "y", 4), ("a", "z", 4)]


def test_the_topic_is_named_after_the_application_and_the_name() -> None:
    app = App("test")
    app.stream("in", value=str).repartition(name="middle").process(Where, key=str, value=str).to("out")
    driver = run(app, ("a", "x", 0))
    assert rows(driver) == [("a", "test-middle-repartition/0", 0)]
    assert "test-middle-repartition" in driver.produced_topics


def test_without_a_name_the_topic_is_named_after_the_source() -> None:
    app = App("test")
    app.stream("in", value=str).repartition().to("out")
    assert run(app, ("a", "x", 0)).produced_topics == {"out", "test-in-repartition"}


def test_null_keys_are_dropped_and_counted() -> None:
    app = App("test")
    app.stream("in", value=str).repartition(name="middle").to("out")
    driver = run(app, (None, "x", 0), ("a", "y", 1))
    assert rows(driver) == [("a", "y", 1)]
    assert driver.dropped == {("middle-repartition", "null key before repartition"): 1}


def test_null_keys_pass_if_a_left_join_of_streams_follows() -> None:
    app = App("test")
    left = app.stream("in", value=str).repartition(name="middle")
    right = app.stream("other", value=str)
    left.left_join(right, lambda a, b: f"{a}-{b}", join_window(10), value=str).to("out")
    driver = run(app, (None, "x", 5))
    assert rows(driver) == [(None, "x-None", 5)]
    assert driver.dropped == {}


def test_null_values_pass() -> None:
    app = App("test")
    app.stream("in", value=str).repartition().to("out")
    driver = run(app, ("a", None, 0))
    assert rows(driver) == [("a", None, 0)]
    assert driver.dropped == {}


def test_headers_pass_through_the_topic() -> None:
    app = App("test")
    app.stream("in", value=str).repartition().to("out")
    driver = run(app, ("a", "x", 0, {"trace": "1"}))
    assert driver.output("out").read().headers == (("trace", b"1"),)


def test_a_later_grouping_does_not_repartition_again() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda v: v).repartition(name="once").group_by_key().count(store="counts")
    driver = run(app, ("a", "x", 0))
    assert driver.produced_topics == {"test-once-repartition"}
    assert driver.store("counts").get("x") == 1


def test_the_number_of_partitions_may_be_given() -> None:
    app = App("test")
    app.stream("in", value=str).repartition(name="one", partitions=1).process(Where, key=str, value=str).to("out")
    driver = run(app, *((key, "x", 0) for key in "abcdef"), partitions=3)
    assert {value for _, value, _ in rows(driver)} == {"test-one-repartition/0"}


def test_a_partitioner_chooses_the_partition() -> None:
    app = App("test")
    app.stream("in", value=str).repartition(
        name="chosen", partitioner=lambda key, value, partitions: int(value) % partitions
    ).process(Where, key=str, value=str).to("out")
    driver = run(app, ("a", "0", 0), ("a", "1", 1), ("a", "5", 2), partitions=3)
    assert sorted(value[-2:] for _, value, _ in rows(driver)) == ["/0", "/1", "/2"]


def test_two_topics_of_one_name_are_refused() -> None:
    app = App("test")
    stream = app.stream("in", value=str)
    stream.repartition(name="same")
    refused(lambda: stream.repartition(name="same"), "repartition topic named 'same'", "test_repartition.py")


def test_fewer_than_one_partition_is_refused() -> None:
    refused(lambda: App("test").stream("in").repartition(partitions=0), "at least 1", hint=False)


def test_explicit_naming_refuses_a_topic_without_a_name() -> None:
    app = App("test", ensure_explicit_internal_resource_naming=True)
    refused(lambda: app.stream("in").repartition(), "no name of its own", "name=")
