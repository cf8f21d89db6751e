"""Configuration: its keys, profiles in files and the environment, and secrets."""

from __future__ import annotations

from millstream.config.settings import (
    KEYS,
    OPTIMIZATIONS,
    PREFIXES,
    Config,
    Settings,
    offset_reset,
    refuse_speculation,
)

__all__ = ["KEYS", "OPTIMIZATIONS", "PREFIXES", "Config", "Settings", "offset_reset", "refuse_speculation"]
