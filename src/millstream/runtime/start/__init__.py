"""The steps before the first batch: lock, topics, start positions, compatibility with the last run, views."""

from __future__ import annotations
