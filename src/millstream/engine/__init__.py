"""The engine: runs one task of a topology, record by record, exactly as the semantics say. It knows no Spark."""

from __future__ import annotations

from millstream.engine.task import InputRecord, OutputRecord, Task

__all__ = ["InputRecord", "OutputRecord", "Task"]
