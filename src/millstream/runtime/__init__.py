"""The runtime: runs the tasks of an application on Spark, and publishes their results exactly once."""

from __future__ import annotations
