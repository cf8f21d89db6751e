"""Records that cannot be read go to the exception handlers, with topic, partition and offset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from millstream import App, Processor, Record, Serde, TestDriver
from millstream.core.records import Headers, UnreadableHeaders
from millstream.engine.errors import ErrorContext
from millstream.errors import RunError, TopologyError
from millstream.log import Append, Log, ProducerRecord, open_log
from millstream.log.blocks import decode_headers, encode, encode_headers, encode_unreadable
from millstream.runtime.in_process.batches import InProcessRun

DEAD = {"errors.dead.letter.queue.topic.name": "dead"}
SKIP = {"deserialization.exception.handler": "continue", **DEAD}

# Headers that are invalid in the stored record. The log does not detect them: the checksum of the block is correct.
UNREADABLE = [b"\xc1", encode_headers((("trace", "abc"),)), encode_unreadable("a name is not UTF-8")]  # type: ignore[arg-type]


def fill(directory: Path) -> Log:
    log = open_log(directory)
    for topic in ("in", "out", "dead"):
        log.create_topic(topic, exist_ok=True)
    right = encode_headers((("trace", b"1"),))
    headers = pa.array([None, right, *UNREADABLE, right], pa.binary())
    count = len(headers)
    block = encode(list(range(count)), [b"k"] * count, [b"v%d" % n for n in range(count)], headers)
    log.append([Append("in", 0, block)])
    return log


def values(log: Log, topic: str) -> list[Any]:
    return log.read(topic, 0, 0, 100)["value"].to_pylist()


def stateless(app: App) -> None:
    app.stream("in", value=str).map_values(lambda value: value, value=str).to("out")


def stateful(app: App) -> None:
    app.stream("in", value=str).group_by_key().reduce(lambda _old, new: new).to_stream().to("out")


def by_processor(app: App) -> None:
    app.stream("in", value=str).process(_Passing).to("out", value=str)


class _Passing(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


@pytest.mark.parametrize("build", [stateless, stateful, by_processor])
def test_records_whose_headers_cannot_be_read_are_dead_letters(tmp_path: Path, build: Callable[[App], None]) -> None:
    log = fill(tmp_path)
    app = App("app", config={"state.dir": str(tmp_path), **SKIP})
    build(app)
    with InProcessRun(app) as run:
        run.run()
        drops = [drop for result in run.results for drop in result.drops if drop.count]
    assert [(drop.reason, drop.count) for drop in drops] == [("deserialization error", 3)]
    assert values(log, "out") == [b"v0", b"v1", b"v5"]
    assert values(log, "dead") == [b"v2", b"v3", b"v4"]
    letters = [dict(decode_headers(data)) for data in log.read("dead", 0, 0, 9)["headers"].to_pylist()]
    assert [(headers["__streams.errors.topic"], headers["__streams.errors.offset"]) for headers in letters] == [
        (b"in", b"2"),
        (b"in", b"3"),
        (b"in", b"4"),
    ]
    assert b"the headers cannot be read" in (letters[0]["__streams.errors.message"] or b"")


@pytest.mark.parametrize("build", [stateless, stateful])
def test_the_error_names_topic_partition_and_offset(tmp_path: Path, build: Callable[[App], None]) -> None:
    fill(tmp_path)
    app = App("app", config={"state.dir": str(tmp_path)})
    build(app)
    with (
        InProcessRun(app) as run,
        pytest.raises(RunError, match=r"topic in, partition 0, offset 2.*the headers"),
    ):
        run.run()


def test_a_user_exception_handler_is_called(tmp_path: Path) -> None:
    fill(tmp_path)
    asked: list[tuple[Any, ...]] = []

    def handler(context: ErrorContext, _error: BaseException) -> str:
        asked.append((context.phase, context.topic, context.partition, context.offset, context.value))
        return "continue"

    app = App("app", config={"state.dir": str(tmp_path), "deserialization.exception.handler": handler})
    stateless(app)
    with InProcessRun(app) as run:
        run.run()
    assert asked == [("deserialization", "in", 0, offset, b"v%d" % offset) for offset in (2, 3, 4)]


class _Forwarding(Processor[Any, Any, Any, Any]):
    given: Any = ()

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record._replace(**{record.value: type(self).given}))


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        ("headers", (("trace", "abc"),), "forward: the value of header 'trace' is str, not bytes"),
        ("headers", "abc", "forward: the headers are str, not a tuple"),
        ("timestamp", -1, r"forward: -1 \(int\) is not a timestamp"),
        ("timestamp", 2**63, r"forward: 9223372036854775808 \(int\) is not a timestamp"),
        ("timestamp", 1.5, r"forward: 1.5 \(float\) is not a timestamp"),
    ],
)
def test_records_that_a_processor_forwards_are_checked(field: str, given: Any, message: str) -> None:
    app = App("app")
    app.stream("in", value=str).process(type("Given", (_Forwarding,), {"given": given})).to("out", value=str)
    with TestDriver(app) as driver, pytest.raises(RunError, match=message):
        driver.input("in").pipe("k", field)
    handled = TestDriver(app, config={"processing.exception.handler": "continue", **DEAD})
    handled.input("in").pipe("k", field, timestamp=3)
    assert [record.timestamp for record in handled.output("dead").read_all()] == [3]
    assert handled.output("out").is_empty


@pytest.mark.parametrize("headers", [(("trace", 7),), ((7, b"1"),)])
def test_the_test_driver_refuses_headers_of_another_type(headers: Any) -> None:
    app = App("app")
    stateless(app)
    with TestDriver(app) as driver:
        with pytest.raises(TopologyError, match=r"input 'in': the .* of header"):
            driver.input("in").pipe("k", "v", headers=headers)
        with pytest.raises(TopologyError, match=r"input 'in': the .* of header"):
            driver.input("in").pipe(Record("k", "v", 0, headers))
        driver.input("in").pipe("k", "v", headers={"trace": "text becomes bytes"})
        assert driver.output("out").read().headers == (("trace", b"text becomes bytes"),)


class _Wrong(Serde[str]):
    name = "wrong"

    def serialize(self, value: str | None) -> Any:
        return value if value == "text" else value and value.encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


@pytest.mark.parametrize("build", ["to", "through"])
def test_a_serde_that_gives_no_bytes_goes_to_the_production_handler(tmp_path: Path, build: str) -> None:
    with open_log(tmp_path) as log:
        for topic in ("in", "out", "dead"):
            log.create_topic(topic)
        log.produce("in", [ProducerRecord(b"k", value, 1) for value in (b"a", b"text", b"b")])
        config = {"state.dir": str(tmp_path), "production.exception.handler": "continue", **DEAD}
        app = App("app", config=config)
        stream = app.stream("in", value=str)
        (stream if build == "to" else stream.peek(lambda _value: None)).to("out", value=_Wrong())
        with InProcessRun(app) as run:
            run.run()
        assert values(log, "out") == [b"a", b"b"]
        assert values(log, "dead") == [b"text"]


def test_a_header_that_the_kafka_client_cannot_read_becomes_a_reason() -> None:
    """The client raises a SystemError for a name that is not UTF-8. No Python client can write such a name."""
    pytest.importorskip("confluent_kafka")
    from millstream.log.kafka.reading import _table

    def headers() -> Headers:
        raise SystemError("returned a result with an exception set") from UnicodeDecodeError("utf-8", b"\xff", 0, 1, "")

    message: Any = SimpleNamespace(
        offset=lambda: 7, timestamp=lambda: (1, 5), key=lambda: b"k", value=lambda: b"v", headers=headers
    )
    table = _table([message])
    read = decode_headers(table["headers"][0].as_py())
    assert isinstance(read, UnreadableHeaders)
    assert "utf-8" in read.reason
    assert table["value"].to_pylist() == [b"v"]
