"""Failures that Spark reports: the cause that is shown to the user."""

from __future__ import annotations

import pytest

from millstream.runtime.spark.failures import cause_of

WORKER = """\
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
	at org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:300)
Caused by: java.io.EOFException
	at java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)
"""

IN_A_WORKER = """\
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 1, in main
    process()
  File "/lib/millstream/runtime/host/client.py", line 9, in connect
    raise RunError(
millstream.errors.RunError: a task host could not be started (exit code 1)
  hint: try it yourself: python -c 'import millstream.runtime.host.server'

	at org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:500)
"""

IN_A_BATCH = """\
An error occurred while calling o441.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
	at org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 6.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 6.0 (TID 14) (127.0.0.1 executor driver): java.io.IOException: No space left
Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:3000)
"""

OF_THE_QUERY = """\
[STREAM_FAILED] Query [id = 32e4, runId = cf78] terminated with exception: the disk is full SQLSTATE: XXKST
=== Streaming Query ===
Identifier: planner [id = 32e4, runId = cf78]
"""

WITHOUT_WORDS = """\
[STREAM_FAILED] Query [id = 32e4, runId = cf78] terminated with exception:  SQLSTATE: XXKST (no cause message)
=== Streaming Query ===
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER, "Python worker exited unexpectedly (crashed)"),
        (IN_A_WORKER, "RunError: a task host could not be started (exit code 1)"),
        (IN_A_BATCH, "No space left"),
        (OF_THE_QUERY, "the disk is full"),
        (WITHOUT_WORDS, None),
        ("Connection reset\n=== Streaming Query ===", "a Python process of Spark's has ended (Connection reset)"),
        ("", None),
    ],
)
def test_the_cause_of_a_failure(text: str, cause: str | None) -> None:
    assert cause_of(text) == cause
