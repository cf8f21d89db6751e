"""Publishes a batch atomically, and deletes records that the log no longer needs."""

from __future__ import annotations
