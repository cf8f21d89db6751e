"""``process``: a custom operator, which may forward any records."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from millstream import App, Processor, Record, Stream, TestDriver, TopologyWarning


class Shout(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(record.value.upper()))


def piped(processor: Any, *values: Any, **options: Any) -> list[Record[Any, Any]]:
    """Returns the records that a processor forwards for values of the key k, at times 0, 10, 20 …"""
    app = App("processors")
    app.stream("in").process(processor, name="own").to("out")
    with TestDriver(app, **options) as driver:
        source = driver.input("in", advance=10)
        for value in values:
            source.pipe("k", value, headers={"h": "1"})
        return driver.output("out").read_all()


def test_a_forwarded_record_keeps_key_time_and_headers_unless_changed() -> None:
    assert piped(Shout, "a", "b") == [
        Record("k", "A", 0, (("h", b"1"),)),
        Record("k", "B", 10, (("h", b"1"),)),
    ]


def test_a_processor_may_forward_nothing_or_several_records() -> None:
    class Words(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            for word in record.value.split():
                self.context.forward(record.with_key(word).with_value(word))

    assert [(r.key, r.value) for r in piped(Words, "", "to be")] == [("to", "to"), ("be", "be")]


def test_a_processor_may_change_key_value_time_and_headers() -> None:
    class Change(Processor[str, str, str, int]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(Record("new", 5, record.timestamp + 7, (("x", None), ("x", b"2"))))

    assert piped(Change, "a") == [Record("new", 5, 7, (("x", None), ("x", b"2")))]


def test_null_keys_and_values_are_passed_to_the_processor() -> None:
    class Spell(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value(f"{record.key}={record.value}"))

    app = App("processors")
    app.stream("in").process(Spell).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe(None, None)
        assert driver.output("out").read_values() == ["None=None"]


def test_init_is_called_before_the_first_record_and_close_at_the_end() -> None:
    calls: list[str] = []

    class Noting(Processor[Any, Any, Any, Any]):
        def init(self) -> None:
            calls.append(f"init of {self.context.application_id}")

        def process(self, record: Record[Any, Any]) -> None:
            calls.append("process")

        def close(self) -> None:
            calls.append("close")

    piped(Noting, "a", "b")
    assert calls == ["init of processors", "process", "process", "close"]


def test_init_and_close_are_optional() -> None:
    class Bare:
        context: Any

        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record)

    assert [r.value for r in piped(Bare, "a")] == ["a"]


def test_the_supplier_may_be_a_function_that_passes_arguments() -> None:
    class Add(Processor[str, int, str, int]):
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record.with_value(record.value + self.amount))

    assert [r.value for r in piped(lambda: Add(10), 1, 2)] == [11, 12]


def test_each_task_has_its_own_processor() -> None:
    task_ids: list[Any] = []

    class Counting(Processor[Any, Any, Any, Any]):
        def init(self) -> None:
            task_ids.append(self.context.task_id)

        def process(self, record: Record[Any, Any]) -> None: ...

    piped(Counting, "a", partitions=3)
    assert task_ids == ["0_0", "0_1", "0_2"]


def test_record_metadata_has_topic_partition_and_offset() -> None:
    class Where(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            where = self.context.record_metadata
            assert where is not None
            self.context.forward(record.with_value([where.topic, where.partition, where.offset]))

    assert [r.value for r in piped(Where, "a", "b")] == [["in", 0, 0], ["in", 0, 1]]


def test_record_metadata_after_a_repartition_is_that_of_the_repartition_topic() -> None:
    class Where(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            where = self.context.record_metadata
            assert where is not None
            self.context.forward(record.with_value(where.topic))

    app = App("processors")
    app.stream("in").repartition(name="again").process(Where).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", "a")
        assert driver.output("out").read_values() == ["processors-again-repartition"]


def test_stream_time_is_the_greatest_time_so_far_and_minus_one_at_first() -> None:
    class Times(Processor[Any, Any, Any, Any]):
        def init(self) -> None:
            self.first = self.context.current_stream_time

        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value([self.first, self.context.current_stream_time]))

    app = App("processors")
    app.stream("in").process(Times).to("out")
    with TestDriver(app) as driver:
        for time in (5, 20, 10):
            driver.input("in").pipe("k", "x", timestamp=time)
        assert driver.output("out").read_values() == [[-1, 5], [-1, 20], [-1, 20]]


def test_system_time_is_the_wall_clock() -> None:
    class Now(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value(self.context.current_system_time))

    app = App("processors")
    app.stream("in").process(Now).to("out")
    with TestDriver(app, wall_clock=1_000) as driver:
        driver.input("in").pipe("x")
        driver.advance_wall_clock("2s")
        driver.input("in").pipe("x")
        assert driver.output("out").read_values() == [1_000, 3_000]


def test_a_dropped_record_is_counted_under_the_operator_and_the_reason() -> None:
    class Strict(Processor[str, Any, str, Any]):
        def process(self, record: Record[str, Any]) -> None:
            if record.value < 0:
                self.context.drop(record, "negative")
            else:
                self.context.forward(record)

    app = App("processors")
    app.stream("in").process(Strict, name="strict").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([("a", -1), ("b", 1), ("c", -2)])
        assert driver.output("out").read_values() == [1]
        assert driver.dropped == {("strict", "negative"): 2}
        assert [(d.key, d.value) for d in driver.dropped_records] == [("a", -1), ("c", -2)]


# ----- stores after a change of key --------------------------------------------------------------------------------


def rekeyed(app: App) -> Stream[Any, Any]:
    app.add_store("rows")
    return app.stream("in", value=str).select_key(lambda v: v)


@pytest.mark.parametrize("call", ["process", "process_values"])
def test_a_store_after_a_change_of_key_causes_a_warning_on_the_users_line(call: str) -> None:
    stream = rekeyed(App("test"))
    with pytest.warns(TopologyWarning, match=rf"{call}: the key .* may have changed") as caught:
        getattr(stream, call)(Processor, "rows")
    assert caught[0].filename == __file__
    assert f".repartition().{call}(…)" in str(caught[0].message)


def test_without_a_store_or_after_a_repartition_there_is_no_warning() -> None:
    stream = rekeyed(App("test"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.process(Processor)
        stream.repartition().process(Processor, "rows")
