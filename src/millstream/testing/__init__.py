"""Runs a topology in a test, in milliseconds, without a server."""

from __future__ import annotations

from millstream.testing.driver import TestDriver
from millstream.testing.topics import TestInput, TestOutput

__all__ = ["TestDriver", "TestInput", "TestOutput"]
