"""The runtime: hosts the tasks of an application on Spark, and publishes what they do exactly once."""

from __future__ import annotations
