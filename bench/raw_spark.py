"""The same work by Spark's own operators, for comparison with the runtime in the same run.

Spark reads the same records from Parquet files, in batches of the size that the runtime's had, keeps its state in
RocksDB with the same settings, and writes its results to Parquet files. Code generation, which does not help the
runtime's own queries, is on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.inputs import Records, write_files
from bench.measuring import Progress, medians

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key string, value bigint, time timestamp"

Shape = Callable[["DataFrame"], "DataFrame"]


def keyed_count(rows: DataFrame) -> DataFrame:
    """Counts by key."""
    return rows.groupBy("key").count()


def windowed_count(size_ms: int, grace: str | None) -> Shape:
    """Counts by key and tumbling window. Without a grace period there is no watermark, and every window is kept."""

    def shape(rows: DataFrame) -> DataFrame:
        from pyspark.sql.functions import window  # noqa: PLC0415

        rows = rows if grace is None else rows.withWatermark("time", grace)
        return rows.groupBy(window("time", f"{size_ms} milliseconds"), "key").count()

    return shape


class RawQuery:
    """A query over records in files, which are written on demand.

    Args:
        session: The session of the query, which no other query uses.
        directory: The directory of input and checkpoint.
        shape: The operators of the query.
        batch: The approximate number of records of a batch.
        written: The number of records that an earlier query has read in this directory; this one continues there.
    """

    def __init__(self, session: SparkSession, directory: Path, shape: Shape, batch: int, *, written: int = 0) -> None:
        self._session = session
        self._directory = directory
        self._shape = shape
        self._batch = batch
        self._written = written
        session.conf.set("spark.sql.codegen.wholeStage", "true")
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")

    def run(self, records: Records) -> Progress:
        """Processes more records; returns the progress."""
        source = self._directory / "input"
        file_records = write_files(source, records, start=self._written)
        self._written += len(records.keys)
        files = max(1, round(self._batch / file_records))
        progress, done, total = Progress(), 0, len(records.keys)

        def sink(frame: DataFrame, _batch: int) -> None:
            nonlocal done
            # Results are stored, as Millstream does.
            frame.write.mode("append").parquet(str(self._directory / "output"))
            done = min(total, done + files * file_records)
            progress.add(done)

        rows = self._session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(source))
        writer = self._shape(rows).writeStream.outputMode("update").foreachBatch(sink)
        query = writer.option("checkpointLocation", str(self._directory / "checkpoint")).start()
        try:
            query.processAllAvailable()
            batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
        finally:
            query.stop()
        if sum(batch["numInputRows"] for batch in batches) != total:
            raise SystemExit(f"Spark read {sum(batch['numInputRows'] for batch in batches)} records of {total}")
        progress.phases = [dict(batch["durationMs"]) for batch in batches]
        return progress


def phases(progress: Progress) -> dict[str, float]:
    """Returns the median of each phase that Spark reports, in milliseconds, without phases of zero."""
    return {name: value for name, value in medians(progress.phases).items() if value >= 1}
