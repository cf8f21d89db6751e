"""The read stage of a micro-batch: reads ranges, and packs results and task inputs into rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from millstream.core.failpoints import declare, reach
from millstream.errors import MillstreamError, RunError
from millstream.log.api import Records
from millstream.runtime.messages import TaskResult, failure_of, pack
from millstream.runtime.order.batch_order import NO_ORDER, BatchOrder
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.range_reader import RangeReader
from millstream.runtime.read.routing import Router
from millstream.runtime.user_code.user_output import capture_output

TASK_INPUT, RESULT = 0, 1
"""The kinds of rows."""

AFTER_READ = declare("reader.after-read")

_ROW_BYTES = 2**20
"""Results of ranges are packed into one row until their outputs have so many bytes."""


class Row(NamedTuple):
    """One row of the read stage: its task, its kind, and a packed `TaskInput` or list of `TaskResult`."""

    task: int
    kind: int
    payload: bytes


class Reader:
    """Runs the read stages of one application; made once in each process, because it compiles the operators."""

    def __init__(self, program: Program, log: Records) -> None:
        self._program = program
        self._ranges = RangeReader(program, log)
        self._has_tasks = bool(program.placement.tasks)

    @property
    def is_stuck(self) -> bool:
        """Whether a user function has not returned in time: this process can then read nothing more."""
        return self._ranges.is_stuck

    def read(
        self,
        now: int,
        ranges: Sequence[Range],
        records: pa.Table | None = None,
        tasks: Sequence[int] | None = None,
        order: BatchOrder = NO_ORDER,
    ) -> Iterator[Row]:
        """Reads the ranges of a batch; yields the results of operators that need no task, and the inputs of tasks.

        Args:
            now: The time of the batch.
            ranges: The ranges.
            records: The records of the only range, if Spark has read them.
            tasks: The tasks that run even without input; None: all.
            order: How far tasks go.
        """
        router = Router(self._program.tasks)
        results: list[TaskResult] = []
        size = 0
        for span in ranges:
            result = self._read(span, now, records, router)
            results.append(result)
            size += sum(len(block.data) for block in result.blocks)
            if size >= _ROW_BYTES or self.is_stuck:
                yield Row(span.partition % self._program.tasks, RESULT, pack(results))
                results, size = [], 0
            if self.is_stuck:
                return
        reach(AFTER_READ)
        target = 0
        for task, task_input in router.inputs(now, tasks, order) if self._has_tasks else ():
            target = task  # the results go to a task that runs in any case
            yield Row(task, TASK_INPUT, pack(task_input))
        if results:
            yield Row(target, RESULT, pack(results))

    def _read(self, span: Range, now: int, records: pa.Table | None, router: Router) -> TaskResult:
        """Reads one range and routes its records; an error becomes the failure of the result."""
        printed: list[str] = []
        started = time.perf_counter()
        try:
            with capture_output(printed):
                read = self._ranges.read(span, now, records)
                router.add(span, read)
            result = read.result
        except MillstreamError as error:
            result = TaskResult((0, span.topic, span.partition), failure=failure_of(error))
        except OSError:
            raise  # transient: Spark retries the read
        except BaseException as error:  # noqa: BLE001  (any error must reach the driver)
            wrapped = RunError(f"reading topic {span.topic}, partition {span.partition} failed: {error!r}")
            wrapped.__cause__ = error
            result = TaskResult((0, span.topic, span.partition), failure=failure_of(wrapped))
        figures = {"read": time.perf_counter() - started, "planned": now / 1000, **result.figures}
        return msgspec.structs.replace(result, printed=printed, figures=figures)
