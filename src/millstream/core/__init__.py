"""Types and functions that every layer uses: records, durations, names, partitioning, frozen classes, failpoints."""

from __future__ import annotations
