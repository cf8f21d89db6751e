"""``process_values``: a processor that cannot change the key."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, FixedKeyProcessor, Record, TestDriver
from millstream.errors import ProcessingError


class Double(FixedKeyProcessor[str, int, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_value(record.value * 2))


class ChangeKey(FixedKeyProcessor[str, Any, Any]):
    def process(self, record: Record[str, Any]) -> None:
        self.context.forward(record.with_key("other"))


def app_with(processor: Any, **config: Any) -> App:
    app = App("processors", **config)
    app.stream("in").process_values(processor, name="own").to("out")
    return app


def test_values_and_times_may_change() -> None:
    with TestDriver(app_with(Double)) as driver:
        driver.input("in").pipe("k", 21, timestamp=5)
        assert driver.output("out").read() == Record("k", 42, 5)


def test_a_changed_key_is_refused() -> None:
    with (
        TestDriver(app_with(ChangeKey)) as driver,
        pytest.raises(ProcessingError, match=r"(?s)key was changed from 'k' to 'other'.*hint: use Stream.process"),
    ):
        driver.input("in").pipe("k", 1)


def test_a_changed_key_goes_to_the_processing_handler() -> None:
    with TestDriver(app_with(ChangeKey, processing_exception_handler="continue")) as driver:
        driver.input("in").pipe("k", 1)
        driver.input("in").pipe("other", 2)
        assert driver.output("out").read_values() == [2]
        assert driver.dropped == {("own", "processing error"): 1}


def test_a_null_key_stays_null() -> None:
    with TestDriver(app_with(Double)) as driver:
        driver.input("in").pipe(None, 1)
        assert driver.output("out").read_pairs() == [(None, 2)]


def test_no_repartition_follows() -> None:
    app = App("processors")
    app.stream("in", value=int).process_values(Double, value=int).group_by_key().count().to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        assert driver.produced_topics == {"out"}


def test_a_punctuator_may_forward_any_key() -> None:
    class Ticking(FixedKeyProcessor[str, Any, Any]):
        def init(self) -> None:
            self.context.schedule("1s", "wall", self.tick)

        def tick(self, now: int) -> None:
            self.context.forward(Record("tick", now, now))

        def process(self, record: Record[str, Any]) -> None: ...

    with TestDriver(app_with(Ticking)) as driver:
        driver.input("in").pipe("k", 1)
        driver.advance_wall_clock("1s")
        assert driver.output("out").read_pairs() == [("tick", 1_000)]
