"""Runs an application in a test, in milliseconds, without Spark and without a broker."""

from __future__ import annotations

from millstream.testing.driver import TestDriver
from millstream.testing.topics import TestInput, TestOutput

__all__ = ["TestDriver", "TestInput", "TestOutput"]
