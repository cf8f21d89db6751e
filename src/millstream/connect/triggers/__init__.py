"""Capture by triggers: changes of SQLite and PostgreSQL tables become records in Debezium's envelope."""

from __future__ import annotations

from millstream.connect.triggers.source import TriggerSource

__all__ = ["TriggerSource"]
