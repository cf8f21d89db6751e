"""Kafka read by Spark's own connector, in Java, in batches that the planner plans (``kafka.source=connector``).

The connector's own source decides alone how far a batch reads. So only its readers are used: this module gives Spark a
source whose batches the planner plans on the driver, and whose partitions are the connector's. Spark expects a source
in Java; the classes here implement its four interfaces and are called by Java through Py4J, as the function of
``foreachBatch`` is.

A worker reads the facts about its range, other than records, from the properties of its job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark import TaskContext

from millstream.errors import MillstreamError, SetupError
from millstream.log.api import SCHEMA as RECORDS
from millstream.log.blocks import encode_headers
from millstream.log.kafka.settings import for_java
from millstream.log.opening import open_location
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.batches.control import Control
from millstream.runtime.batches.planner import Planner
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import Range
from millstream.runtime.spark.source import SCHEMA, Settings, packed_rows, rows_for
from millstream.runtime.spark.worker import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAN = "millstream.plan"
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_POLL_MS = 120_000
_WITH_HEADERS = True
_LOSS_FAILS = False
"""The planner detects lost records, as for every source."""


def connector_rows(session: SparkSession, program: Program, settings: Settings) -> DataFrame:
    """The rows of a batch, as `MillstreamSource` returns them.

    Raises:
        SetupError: The connector is not on the class path.
        ConfigError: A setting of the clients has no counterpart in Java.
    """
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame  # noqa: PLC0415

    java = _Java(session, program)
    ensure_callback_server_started(java.gateway)  # type: ignore[no-untyped-call]
    control = Control(Path(settings.control))
    log = open_location(program.log, create=False)
    planner = Planner(program, log, control, settings.first, skipped=settings.before.skipped)
    relation = java.relation(_Table(java, lambda: _Stream(java, planner, settings)))
    records = ClassicDataFrame(java.sql.classic.Dataset.ofRows(session._jsparkSession, relation), session)
    return records.mapInArrow(_packing(settings), SCHEMA)


class _Java:
    """The classes and settings of Java that the source uses."""

    def __init__(self, session: SparkSession, program: Program) -> None:
        assert program.log.cluster is not None
        self.context = session.sparkContext
        gateway: Any = self.context._gateway
        self.gateway = gateway
        self.jvm = gateway.jvm
        self.sql = self.jvm.org.apache.spark.sql
        self.kafka = self.sql.kafka010
        if not isinstance(self.kafka.KafkaBatchInputPartition, JavaClass):
            raise SetupError(
                "kafka.source=connector needs Spark's connector for Kafka, which is not on Java's class path",
                hint=f"spark.jars.packages={_PACKAGE}:{session.version}, or spark.jars with the paths of its jars",
            )
        self.schema = self._only("KafkaRecordToRowConverter", self.kafka).kafkaSchema(_WITH_HEADERS)
        self.readers = self._only("KafkaBatchReaderFactory", self.kafka)
        self._settings = self.jvm.java.util.HashMap()
        settings = {
            **for_java(program.log.cluster.clients, program.log.cluster.consumer),
            "group.id": f"millstream-{program.topology.application_id}",
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
            "enable.auto.commit": "false",
        }
        for name, value in settings.items():
            self._settings.put(name, value)

    @staticmethod
    def _only(name: str, package: Any) -> Any:
        """A Scala object."""
        return getattr(getattr(package, f"{name}$"), "MODULE$")

    def relation(self, table: _Table) -> Any:
        """The leaf of a plan that reads a table as a stream."""
        none = self.jvm.scala.Option.empty()
        catalyst = self.sql.catalyst
        return catalyst.streaming.StreamingRelationV2(
            none,
            table.name(),
            table,
            self.sql.util.CaseInsensitiveStringMap.empty(),
            catalyst.types.DataTypeUtils.toAttributes(self.schema),
            none,
            none,
            none,
            self._only("Unassigned", catalyst.streaming),
        )

    def offset(self, text: str) -> Any:
        """An entry of Spark's offset log."""
        return self.sql.execution.streaming.runtime.SerializedOffset(text)

    def part(self, span: Range) -> Any:
        """The partition that one task reads."""
        partition = self.jvm.org.apache.kafka.common.TopicPartition(span.topic, span.partition)
        offsets = self.kafka.KafkaOffsetRange(partition, span.start, span.end, self.jvm.scala.Option.empty())
        return self.kafka.KafkaBatchInputPartition(offsets, self._settings, _POLL_MS, _LOSS_FAILS, _WITH_HEADERS)

    def array(self, kind: Any, items: Iterable[Any] = ()) -> Any:
        """A Java array."""
        elements = list(items)
        array = self.gateway.new_array(kind, len(elements))
        for index, element in enumerate(elements):
            array[index] = element
        return array


# ----- called by Java -----------------------------------------------------------------------------------------------
# The names are those of Java. Py4J lacks the default methods of interfaces, so all that Spark calls are defined.


class _Proxy:
    """Methods of java.lang.Object."""

    def toString(self) -> str:  # noqa: N802
        return "millstream"

    def hashCode(self) -> int:  # noqa: N802
        return id(self) & 0x7FFFFFFF

    def equals(self, other: object) -> bool:
        return other is self


class _Table(_Proxy):
    """The records of all topics, as a table that can be read as a stream."""

    class Java:
        implements = (
            "org.apache.spark.sql.connector.catalog.Table",
            "org.apache.spark.sql.connector.catalog.SupportsRead",
        )

    def __init__(self, java: _Java, stream: Callable[[], _Stream]) -> None:
        self._java = java
        self._stream = stream

    def name(self) -> str:
        return "millstream"

    def schema(self) -> Any:
        return self._java.schema

    def columns(self) -> Any:
        return self._java.sql.connector.catalog.CatalogV2Util.structTypeToV2Columns(self._java.schema)

    def partitioning(self) -> Any:
        return self._java.array(self._java.sql.connector.expressions.Transform)

    def properties(self) -> Any:
        return self._java.jvm.java.util.HashMap()

    def capabilities(self) -> Any:
        capability = self._java.sql.connector.catalog.TableCapability.MICRO_BATCH_READ
        return self._java.jvm.java.util.Collections.singleton(capability)

    def newScanBuilder(self, _options: Any) -> _Scan:  # noqa: N802
        return _Scan(self._java, self._stream)

    def version(self) -> None:
        return None

    def id(self) -> None:
        return None


class _Scan(_Proxy):
    """One scan of that table; it builds itself."""

    class Java:
        implements = ("org.apache.spark.sql.connector.read.ScanBuilder", "org.apache.spark.sql.connector.read.Scan")

    def __init__(self, java: _Java, stream: Callable[[], _Stream]) -> None:
        self._java = java
        self._stream = stream

    def build(self) -> _Scan:
        return self

    def readSchema(self) -> Any:  # noqa: N802
        return self._java.schema

    def description(self) -> str:
        return "millstream"

    def toMicroBatchStream(self, _checkpoint: str) -> _Stream:  # noqa: N802
        return self._stream()

    def supportedCustomMetrics(self) -> Any:  # noqa: N802
        return self._java.array(self._java.sql.connector.metric.CustomMetric)

    def reportDriverMetrics(self) -> Any:  # noqa: N802
        return self._java.array(self._java.sql.connector.metric.CustomTaskMetric)

    def columnarSupportMode(self) -> Any:  # noqa: N802
        modes = getattr(self._java.jvm, "org.apache.spark.sql.connector.read.Scan$ColumnarSupportMode")
        return modes.UNSUPPORTED


class _Stream(_Proxy):
    """The batches of a query."""

    class Java:
        implements = (
            "org.apache.spark.sql.connector.read.streaming.MicroBatchStream",
            "org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl",
        )

    def __init__(self, java: _Java, planner: Planner, settings: Settings) -> None:
        self._java = java
        self._planner = planner
        self._settings = settings
        self._suspect = settings.before.suspect

    def initialOffset(self) -> Any:  # noqa: N802
        return self._java.offset(self._planner.first().to_json())

    def deserializeOffset(self, text: str) -> Any:  # noqa: N802
        return self._java.offset(text)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return self._java.sql.connector.read.streaming.ReadLimit.allAvailable()

    def latestOffset(self, start: Any, _limit: Any) -> Any:  # noqa: N802
        return self._java.offset(self._planner.next(self._end(start)).to_json())

    def reportLatestOffset(self) -> None:  # noqa: N802
        return None

    def planInputPartitions(self, start: Any, end: Any) -> Any:  # noqa: N802
        """One partition for each range. A tick without ranges needs one, too, which reads nothing."""
        last = self._end(end)
        ranges = self._planner.ranges(self._end(start), last)
        plan = _BatchPlan(last.time, ranges, last.tasks, last.order, self._suspect)
        self._suspect = False
        self._java.context.setLocalProperty(_PLAN, msgspec.json.encode(plan).decode())
        if not ranges:
            topic, ends = next(iter(last.offsets.items()))
            ranges = [Range(topic, 0, ends[0], ends[0], more=False)]
        return self._java.array(self._java.sql.connector.read.InputPartition, map(self._java.part, ranges))

    def createReaderFactory(self) -> Any:  # noqa: N802
        return self._java.readers

    def commit(self, _end: Any) -> None:
        """Does nothing: the driver commits a batch."""

    def stop(self) -> None:
        self._planner.close()

    def _end(self, offset: Any) -> BatchEnd:
        """Reads an entry of Spark's offset log. An entry of another version is a failure that the driver reports."""
        try:
            return BatchEnd.from_json(offset.json())
        except MillstreamError as error:
            Control(Path(self._settings.control)).fail(error)
            raise


# ----- in Spark's workers --------------------------------------------------------------------------------------------


class _BatchPlan(msgspec.Struct):
    """The plan of a batch, a local property of the Spark job. A worker reads the range of its partition."""

    now: int
    ranges: list[Range]
    tasks: list[int] | None
    order: BatchOrder
    suspect: bool


def _packing(settings: Settings) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = TaskContext.get()
        assert context is not None
        plan = msgspec.json.decode(context.getLocalProperty(_PLAN) or "", type=_BatchPlan)
        ranges = plan.ranges[context.partitionId() :][:1]
        records = _records(batches)
        rows = rows_for(settings, plan.now, ranges, plan.tasks, plan.order, records, suspect=plan.suspect)
        yield from packed_rows(rows, settings.slots)

    return pack


def _records(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Converts the columns of the connector to those of a log."""
    chunks = list(batches)
    if not chunks:
        return RECORDS.empty_table()
    table = pa.Table.from_batches(chunks)
    headers = table.column("headers")
    columns = {
        "offset": table.column("offset"),
        "timestamp": pc.divide(table.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64()), 1000),
        "key": table.column("key"),
        "value": table.column("value"),
        "headers": pa.nulls(len(table), pa.binary())
        if headers.null_count == len(headers)
        else pa.array([_encoded(row) for row in headers.to_pylist()], pa.binary()),
    }
    return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in RECORDS], schema=RECORDS)


def _encoded(headers: list[dict[str, Any]] | None) -> bytes | None:
    return encode_headers(tuple((header["key"], header["value"]) for header in headers)) if headers else None
