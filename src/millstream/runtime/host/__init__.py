"""Task hosts: the long-lived processes in which tasks run, beside Spark's own Python workers."""

from __future__ import annotations
