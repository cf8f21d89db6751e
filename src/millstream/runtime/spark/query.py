"""Builds the streaming query of an application: source, tasks, commit. Its shape does not depend on the topology."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.host.client import stop_all
from millstream.runtime.program.program import Program, pack_program
from millstream.runtime.spark.failures import FailedTasks, cause_of, cause_of_java
from millstream.runtime.spark.proxy import OUTPUT, TaskProxy
from millstream.runtime.spark.session import cores_of, executor_cores
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.slots import slots
from millstream.runtime.spark.source import Before, Settings, source_for
from millstream.runtime.start.checkpoint import url_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STOP_SECONDS = 2.0
"""Time to wait for the end of task hosts on other machines."""

Commit = Callable[[int, list[bytes], float], None]
"""Called with the number of a batch, the packed results of its tasks, and the seconds they took."""


class Query:
    """A running query.

    Attributes:
        run: Name of this run, to which its task hosts belong.
        spark: Spark's own handle of it.
        failed_tasks: Reports tasks that Spark runs again.
        batch_error: Failure of the last batch, if it came before the commit.
    """

    def __init__(
        self,
        session: SparkSession,
        program: Program,
        first: BatchEnd,
        control: Path,
        checkpoint: str,
        commit: Commit,
        before: Before,
    ) -> None:
        self.run = secrets.token_hex(6)
        self._context = session.sparkContext
        self.batch_error: Exception | None = None
        self._cores = cores_of(session)
        packed = ShippedProgram(pack_program(program), session, control.parent)
        keys = slots(program.tasks)
        hosts = executor_cores(session)
        settings = Settings(packed, str(control), first, self._cores, keys, self.run, hosts, before)
        rows = _source(session, program, settings)
        if program.placement.tasks:
            proxy = TaskProxy(self.run, packed, hosts, {key: task for task, key in enumerate(keys)}, control)
            rows = rows.groupBy("slot").transformWithState(proxy, OUTPUT, "Update", "None")

        def on_batch(frame: DataFrame, batch: int) -> None:
            started = time.perf_counter()
            try:
                payloads: list[Any] = frame.select("payload").toArrow().column(0).to_pylist()
            except Exception as error:
                self.batch_error = error
                raise
            commit(batch, payloads, time.perf_counter() - started)

        writer = rows.writeStream.outputMode("update").foreachBatch(on_batch)
        writer = writer.queryName(program.topology.application_id).option("checkpointLocation", url_of(checkpoint))
        self.spark: StreamingQuery = writer.start()
        self.failed_tasks = FailedTasks(self._context, str(self.spark.runId))

    def why_it_ended(self) -> str | None:
        """The cause of the failure of the last batch, or of Spark; None if Spark has not failed."""
        error = self.batch_error or self.spark.exception()
        if error is None:
            return None
        java: Any = self.spark
        return cause_of(str(error)) or cause_of_java(java._jsq.exception().get())

    def stop(self) -> None:
        """Stops the query, and ends its task hosts."""
        with contextlib.suppress(Exception):
            self.spark.stop()
        stop_all(self.run)
        if not str(self._context.master).startswith("local"):
            # Without this they would live for ten minutes more. Spark may not answer, hence the thread.
            thread = threading.Thread(target=self._stop_elsewhere, name="millstream-stop-hosts", daemon=True)
            thread.start()
            thread.join(_STOP_SECONDS)

    def _stop_elsewhere(self) -> None:
        """Ends the hosts of all executors. No other job runs, so each executor gets tasks of this one."""
        run, count = self.run, 2 * self._cores
        with contextlib.suppress(Exception):
            self._context.parallelize(range(count), count).foreach(lambda _number: stop_all(run))


def _source(session: SparkSession, program: Program, settings: Settings) -> DataFrame:
    if program.log.cluster is not None and program.config["kafka.source"] == "connector":
        from millstream.runtime.spark.connector import connector_rows  # noqa: PLC0415  (it is optional)

        return connector_rows(session, program, settings)
    source = source_for(settings)
    session.dataSource.register(source)
    return session.readStream.format(source.name()).load()
