"""The embedded log: topics in one SQLite database, without any server."""

from __future__ import annotations

from millstream.log.embedded.log import EmbeddedLog, open_log

__all__ = ["EmbeddedLog", "open_log"]
