"""Polling: rows of any database with a DB-API driver become records."""

from __future__ import annotations

from millstream.connect.polling.source import PollingSource

__all__ = ["PollingSource"]
