"""The read stage: reads ranges of offsets, runs stateless operators, and routes records to tasks."""

from __future__ import annotations
