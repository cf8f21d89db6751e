"""PostgreSQL: change data capture, the outbox pattern, and sinks."""

from __future__ import annotations
