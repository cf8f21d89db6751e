"""Records that cannot be read, and the deserialization exception handler."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Serde, TestDriver
from millstream.errors import DeserializationError, RecordReadError

GOOD = (7).to_bytes(8, "big")


def reading(number: Any = int, **config: Any) -> App:
    app = App("errors", **config)
    app.stream("numbers", key=str, value=number, name="reader").to("out")
    return app


def raw(driver: TestDriver) -> Any:
    """Returns an input of bytes, independent of the serdes of the application."""
    return driver.input("numbers", key=bytes, value=bytes)


def test_by_default_the_application_stops_with_the_record_and_a_remedy() -> None:
    with TestDriver(reading()) as driver:
        raw(driver).pipe(b"k", GOOD)
        with pytest.raises(
            RecordReadError,
            match=r"(?s)deserialization failed in operator 'reader' \(topic numbers, partition 0, offset 1\): long.*"
            r"\n  hint: ",
        ) as caught:
            raw(driver).pipe(b"k", b"abc")
        assert isinstance(caught.value.__cause__, DeserializationError)
        assert driver.output("out").read_values() == [7]


def test_keys_that_cannot_be_read_go_to_the_handler_too() -> None:
    with TestDriver(reading()) as driver, pytest.raises(RecordReadError, match="string"):
        raw(driver).pipe(b"\xff", GOOD)


@pytest.mark.parametrize("bad", [b"{", b"", b"\xff"])
def test_invalid_json_cannot_be_read(bad: bytes) -> None:
    with TestDriver(reading(dict)) as driver, pytest.raises(RecordReadError, match="json"):
        raw(driver).pipe(b"k", bad)


def test_null_can_always_be_read() -> None:
    with TestDriver(reading()) as driver:
        raw(driver).pipe(None, None)
        assert driver.output("out").read_pairs() == [(None, None)]


def test_continue_drops_the_record_and_counts_it() -> None:
    with TestDriver(reading(deserialization_exception_handler="continue")) as driver:
        for value in (GOOD, b"abc", GOOD):
            raw(driver).pipe(b"k", value, timestamp=3)
        assert driver.output("out").read_values() == [7, 7]
        assert driver.dropped == {("reader", "deserialization error"): 1}
        (dropped,) = driver.dropped_records
        assert (dropped.key, dropped.value, dropped.timestamp) == (b"k", b"abc", 3)


def test_a_handler_function_decides_for_each_record() -> None:
    calls: list[Any] = []

    def handler(context: Any, error: BaseException) -> str:
        calls.append((context, error))
        return "continue" if context.value == b"abc" else "fail"

    with TestDriver(reading(deserialization_exception_handler=handler)) as driver:
        raw(driver).pipe(b"k", b"abc", timestamp=3, headers={"h": "1"})
        with pytest.raises(RecordReadError):
            raw(driver).pipe(b"k", b"de")
    context, error = calls[0]
    assert isinstance(error, DeserializationError)
    assert (context.phase, context.topic, context.partition, context.offset) == ("deserialization", "numbers", 0, 0)
    assert (context.operator, context.function, context.task_id) == ("reader", None, "0_0")
    assert (context.key, context.value, context.timestamp, context.headers) == (b"k", b"abc", 3, (("h", b"1"),))


class Celsius(Serde[float]):
    """The serde of the documentation: its errors are not Millstream's."""

    def serialize(self, value: float | None) -> bytes | None:
        return None if value is None else str(value).encode()

    def deserialize(self, data: bytes | None) -> float | None:
        return None if data is None else float(data)


def test_any_error_of_a_users_serde_goes_to_the_handler() -> None:
    with TestDriver(reading(Celsius(), deserialization_exception_handler="continue")) as driver:
        raw(driver).pipe(b"k", b"21.5")
        raw(driver).pipe(b"k", b"warm")
        assert driver.output("out").read_values() == [21.5]


def test_any_error_of_a_users_serde_stops_the_application_with_a_record_read_error() -> None:
    with TestDriver(reading(Celsius())) as driver, pytest.raises(RecordReadError, match="ValueError: could not"):
        raw(driver).pipe(b"k", b"warm")


def test_a_table_is_read_with_the_same_handler() -> None:
    app = App("errors", deserialization_exception_handler="continue")
    app.table("numbers", value=int, store="table")
    with TestDriver(app) as driver:
        raw(driver).pipe(b"k", GOOD)
        raw(driver).pipe(b"k", b"abc")
        assert driver.store("table").get("k") == 7
        assert sum(driver.dropped.values()) == 1


def test_a_global_table_is_read_with_the_same_handler() -> None:
    app = App("errors", deserialization_exception_handler="continue")
    app.global_table("numbers", value=int, store="table")
    with TestDriver(app) as driver:
        raw(driver).pipe(b"k", GOOD)
        raw(driver).pipe(b"k", b"abc")
        assert driver.store("table").get("k") == 7


def test_a_negative_timestamp_stops_the_application_with_a_hint() -> None:
    with (
        TestDriver(reading()) as driver,
        pytest.raises(RecordReadError, match=r"(?s)timestamp -1 is not valid.*on_invalid_timestamp='skip'"),
    ):
        raw(driver).pipe(b"k", GOOD, timestamp=-1)


def test_an_error_in_a_timestamp_function_goes_to_the_handler() -> None:
    app = App("errors", deserialization_exception_handler="continue")
    app.stream("in", value=dict, timestamp=lambda v: v["at"]).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", {"at": 5})
        driver.input("in").pipe("k", {})
        assert [r.timestamp for r in driver.output("out").read_all()] == [5]
        assert sum(driver.dropped.values()) == 1


def test_a_timestamp_that_is_not_a_number_goes_to_the_handler() -> None:
    app = App("errors", deserialization_exception_handler="continue")
    app.stream("in", value=dict, timestamp="at").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", {"at": "noon"})
        driver.input("in").pipe("k", {"at": 5})
        assert [r.timestamp for r in driver.output("out").read_all()] == [5]
