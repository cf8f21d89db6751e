"""An empty batch: a Python source, transformWithState and foreachBatch that do nothing.

It is the least that a batch of any application can take: one row of a few kilobytes for each task, a token and a
segment in the state, one row back.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from bench.measuring import Progress
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from millstream.runtime.spark.slots import slots
from millstream.runtime.spark.state_map import StateMap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "slot bigint, kind int, payload binary"
_ARROW = pa.schema([("slot", pa.int64()), ("kind", pa.int32()), ("payload", pa.binary())])


class _Part(InputPartition):
    def __init__(self, slot: int) -> None:
        super().__init__(None)
        self.slot = slot


class _Reader(DataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self._slots = json.loads(options["slots"])
        self._batches = int(options["batches"])
        self._size = int(options["size"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Part(slot) for slot in self._slots]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        columns = [[partition.slot], pa.array([1], pa.int32()), [bytes(self._size)]]
        yield pa.record_batch(columns, schema=_ARROW)

    def commit(self, end: dict[str, int]) -> None:
        pass


class _Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "empty-batch"

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> _Reader:  # noqa: N802
        return _Reader(self.options)


class _Processor(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = StateMap(handle, "state")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        payload = b"".join(bytes(row.payload) for row in rows)
        self._state.get_many([b"token"])
        self._state.put_many([(b"token", bytes(16)), (b"segment", payload)])
        yield Row(payload=payload)

    def close(self) -> None:
        pass


def run(session: SparkSession, directory: Path, *, tasks: int, batches: int, size: int) -> Progress:
    """Runs a number of batches with a payload for each task."""
    progress = Progress()

    def sink(frame: DataFrame, batch: int) -> None:
        rows = frame.select("payload").toArrow().num_rows
        if rows != tasks:
            raise SystemExit(f"the empty batch returned {rows} rows, not {tasks}")
        progress.add(batch + 1)

    # Spark's workers cannot import modules beside this script.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    try:
        session.dataSource.register(_Source)
        reader = session.readStream.format("empty-batch").option("slots", json.dumps(slots(tasks)))
        rows = reader.option("batches", batches).option("size", size).load()
        kept = rows.groupBy("slot").transformWithState(_Processor(), "payload binary", "Update", "None")
        writer = kept.writeStream.outputMode("update").foreachBatch(sink)
        query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    return progress
