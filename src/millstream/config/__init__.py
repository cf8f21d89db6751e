"""Configuration: its keys and their validation, profiles in files and the environment, and secrets."""

from __future__ import annotations

from millstream.config.configuration import Config, refuse_speculation
from millstream.config.keys import KEYS, PREFIXES, Mode, Settings
from millstream.config.validators import OPTIMIZATIONS, offset_reset

__all__ = ["KEYS", "OPTIMIZATIONS", "PREFIXES", "Config", "Mode", "Settings", "offset_reset", "refuse_speculation"]
