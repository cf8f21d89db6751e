from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor
from pyspark.sql.types import StructType

from millstream.errors import StateConnectionError
from millstream.runtime.spark.state_map import StateMap

# The workers of Spark cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

COUNT = 1_500
SPECIAL = {
    b"": b"the empty key",
    b"empty value": b"",
    b"\x00\xff\x80": bytes(range(256)),
    b"like the layout": b"\nbytearray\nX\x05\x00\x00\x00",
    b"latin-1": b"latin-1",
    b"builtins": b"builtins",
}


def megabyte() -> bytes:
    # Not a constant: Spark broadcasts a processor of a megabyte, and the worker on the driver cannot read broadcasts.
    return bytes(range(256)) * 4096


def key_of(number: int) -> bytes:
    return b"page-%d" % number


def value_of(number: int) -> bytes:
    return key_of(number * 7919) * (number % 40)


# --- on Spark ---------------------------------------------------------------------------------------------------------


class PublicMap:
    """A map state that has only its public methods."""

    def __init__(self, entries: MapState) -> None:
        self.getValue = entries.getValue
        self.updateValue = entries.updateValue
        self.removeKey = entries.removeKey
        self.keys = entries.keys


class PublicHandle:
    def __init__(self, handle: Any) -> None:
        self.getMapState = lambda *arguments: PublicMap(handle.getMapState(*arguments))


class Scenario(StatefulProcessor):
    """Runs one step per batch, each on a new connection, with the state that earlier steps left in the state store."""

    def __init__(self, pipelined: bool) -> None:
        self.pipelined = pipelined

    def init(self, handle: Any) -> None:
        self.map = StateMap(handle if self.pipelined else PublicHandle(handle), "pages")  # type: ignore[arg-type]
        self.other = StateMap(handle, "other")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            facts = getattr(self, row.value)()
            yield Row(result=json.dumps(facts | {"pipelined": self.map.pipelined}))

    def close(self) -> None:
        pass

    def empty(self) -> dict[str, Any]:
        self.map.put_many([])
        self.map.delete_many([])
        return {
            "keys": len(self.map.scan_keys()),
            "found": [value is not None for value in self.map.get_many([b"", b"nobody"])],
            "nothing": self.map.get_many([]),
        }

    def fill(self) -> dict[str, Any]:
        self.map.put_many((key_of(number), b"old") for number in range(COUNT))
        self.map.put_many((key_of(number), value_of(number)) for number in range(COUNT))
        self.map.put_many([*SPECIAL.items(), (b"megabyte", megabyte()), (b"twice", b"first"), (b"twice", b"second")])
        self.other.put_many([(b"megabyte", b"of the other map")])
        return {"megabyte": self.map.get_many([b"megabyte"]) == [megabyte()]}

    def check(self) -> dict[str, Any]:
        numbered = self.map.get_many(key_of(number) for number in range(COUNT))
        special = self.map.get_many(SPECIAL)
        expected_keys = {*map(key_of, range(COUNT)), *SPECIAL, b"twice", b"megabyte"}
        keys = self.map.scan_keys()
        return {
            "wrong": [number for number in range(COUNT) if numbered[number] != value_of(number)],
            "wrong special": [repr(key) for key, value in zip(SPECIAL, special, strict=True) if value != SPECIAL[key]],
            "types": sorted({type(value).__name__ for value in [*numbered, *special, *keys]}),
            "twice": repr(self.map.get_many([b"twice", b"nobody", b"twice"])),
            "keys": [len(keys), set(keys) == expected_keys],
            "megabytes": self.map.get_many([b"megabyte"] * 20) == [megabyte()] * 20,
            "other": [repr(self.other.scan_keys()), repr(self.other.get_many([b"megabyte"]))],
        }

    def delete(self) -> dict[str, Any]:
        self.map.delete_many([key_of(number) for number in range(0, COUNT, 2)])
        self.map.delete_many([b"", b"nobody", b"megabyte"])
        return {"odd": sum(value is not None for value in self.map.get_many(map(key_of, range(COUNT))))}

    def check_deleted(self) -> dict[str, Any]:
        values = self.map.get_many(map(key_of, range(COUNT)))
        return {
            "wrong": [n for n in range(COUNT) if values[n] != (value_of(n) if n % 2 else None)],
            "keys": len(self.map.scan_keys()),
        }


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch": "1000",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def run(spark: SparkSession, directory: Path, processor: StatefulProcessor, steps: list[str]) -> list[dict[str, Any]]:
    source = directory / "steps"
    source.mkdir()
    for number, step in enumerate(steps):
        file = source / f"{number}.txt"
        file.write_text(step)
        os.utime(file, (number, number))
    results: list[dict[str, Any]] = []
    query = (
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(str(source))
        .selectExpr("0L AS slot", "value")
        .groupBy("slot")
        .transformWithState(processor, "result string", "update", "None")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: results.extend(json.loads(row.result) for row in batch.collect()))
        .start()
    )
    query.awaitTermination()
    return results


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pipelined", [True, False])
def test_a_get_returns_the_last_put(spark: SparkSession, tmp_path: Path, pipelined: bool) -> None:
    steps = ["empty", "fill", "check", "delete", "check_deleted"]

    empty, filled, checked, deleted, left = run(spark, tmp_path, Scenario(pipelined), steps)

    assert {step["pipelined"] for step in (empty, filled, checked, deleted, left)} == {pipelined}
    assert empty == {"keys": 0, "found": [False, False], "nothing": [], "pipelined": pipelined}
    assert filled["megabyte"]
    assert checked == {
        "wrong": [],
        "wrong special": [],
        "types": ["bytes"],
        "twice": repr([b"second", None, b"second"]),
        "keys": [COUNT + len(SPECIAL) + 2, True],
        "megabytes": True,
        "other": [repr([b"megabyte"]), repr([b"of the other map"])],
        "pipelined": pipelined,
    }
    assert deleted["odd"] == COUNT // 2
    assert left == {"wrong": [], "keys": COUNT // 2 + len(SPECIAL) + 2 - 2, "pipelined": pipelined}


@pytest.mark.spark
@pytest.mark.timeout(120)
def test_values_are_read_where_spark_hands_out_bytearrays(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.execution.pyspark.binaryAsBytes", "false")
    try:
        filled, checked = run(spark, tmp_path, Scenario(pipelined=True), ["fill", "check"])
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.binaryAsBytes")

    assert filled["pipelined"]
    assert (checked["wrong"], checked["wrong special"], checked["types"]) == ([], [], ["bytes"])


# --- against a server that follows the protocol strictly --------------------------------------------------------------


class Server:
    """The JVM's end of the connection, in a thread that runs `serve`."""

    def __init__(self, serve: Callable[[Server], None]) -> None:
        self.client, self.connection = socket.socketpair()
        self.stream = self.connection.makefile("rb")
        self.thread = threading.Thread(target=serve, args=(self,), daemon=True)
        self.thread.start()

    def map(self) -> StateMap:
        client = MapStateClient(SimpleNamespace(_client_socket=self.client), StructType(), StructType())  # type: ignore[arg-type]
        return StateMap(SimpleNamespace(getMapState=lambda *_: MapState(client, "pages")), "pages")  # type: ignore[arg-type]

    def request(self) -> messages.StateRequest:
        assert self.stream.read(4) == bytes(4)
        return messages.StateRequest.FromString(self.stream.read(int.from_bytes(self.stream.read(4), "big")))

    def answer(self, **fields: Any) -> None:
        body = messages.StateResponse(**fields).SerializeToString()
        self.connection.sendall(len(body).to_bytes(4, "big") + body)

    def close(self) -> None:
        for end in (self.stream, self.connection, self.client):
            end.close()


@pytest.fixture
def server() -> Iterator[Callable[[Callable[[Server], None]], Server]]:
    servers: list[Server] = []

    def start(serve: Callable[[Server], None]) -> Server:
        servers.append(Server(serve))
        return servers[-1]

    yield start
    for started in servers:
        started.client.shutdown(socket.SHUT_RDWR)
        started.thread.join()
        started.close()


StartServer = Callable[[Callable[[Server], None]], Server]


def test_all_requests_are_sent_before_the_first_answer(server: StartServer) -> None:
    asked: list[bytes] = []

    def serve(end: Server) -> None:
        asked.extend(end.request().stateVariableRequest.mapStateCall.removeKey.userKey for _ in range(100))
        for _ in range(100):
            end.answer()

    server(serve).map().delete_many(map(key_of, range(100)))

    assert [key_of(n) in row for n, row in enumerate(asked)] == [True] * 100


def test_large_requests_and_large_answers_do_not_deadlock(server: StartServer) -> None:
    def serve(end: Server) -> None:
        for _ in range(30):
            end.request()
            end.answer(errorMessage="x" * len(megabyte()))

    server(serve).map().put_many((key_of(number), megabyte()) for number in range(30))


def test_a_refused_call_ends_the_connection_with_answers_unread(server: StartServer) -> None:
    def serve(end: Server) -> None:
        end.request()
        end.answer()
        end.request()
        end.answer(statusCode=1, errorMessage="disk full")

    end = server(serve)
    with pytest.raises(StateConnectionError, match="'pages': disk full"):
        end.map().put_many((key_of(number), megabyte()) for number in range(30))
    with pytest.raises(StateConnectionError, match="lost"):
        end.map().get_many([b"k"])


def test_a_closed_connection_is_an_error(server: StartServer) -> None:
    def serve(end: Server) -> None:
        end.request()
        end.answer()
        end.connection.shutdown(socket.SHUT_RDWR)

    with pytest.raises(StateConnectionError, match="lost"):
        server(serve).map().delete_many([b"a", b"b"])


def test_a_generator_of_entries_may_use_the_map(server: StartServer) -> None:
    asked: list[str | None] = []

    def serve(end: Server) -> None:
        for _ in range(4):
            asked.append(end.request().stateVariableRequest.mapStateCall.WhichOneof("method"))
            end.answer()

    entries = server(serve).map()

    entries.put_many((key, b"") for key in (b"a", b"b") if entries.get_many([key]) == [None])

    assert asked == ["getValue", "getValue", "updateValue", "updateValue"]


def test_no_entry_is_sent_if_their_generator_fails(server: StartServer) -> None:
    def entries() -> Iterator[tuple[bytes, bytes]]:
        yield b"k", megabyte()
        raise LookupError

    def serve(end: Server) -> None:
        assert end.request().stateVariableRequest.mapStateCall.WhichOneof("method") == "removeKey"
        end.answer()

    end = server(serve)
    with pytest.raises(LookupError):
        end.map().put_many(entries())
    end.map().delete_many([b"k"])


def test_an_unknown_version_of_pyspark_gets_the_public_methods(
    server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.4.0")

    assert not server(lambda _: None).map().pipelined
