"""The engine: runs one task of a topology, record by record. It does not depend on Spark, on a log or on a clock."""

from __future__ import annotations

from millstream.engine.task import InputRecord, OutputRecord, Task

__all__ = ["InputRecord", "OutputRecord", "Task"]
