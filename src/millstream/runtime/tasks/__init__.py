"""Runs tasks: merges their inputs in order, calls the engine, and keeps their state."""

from __future__ import annotations
