"""State stores in memory, one module for each kind."""

from __future__ import annotations

from millstream.state.memory.opening import AnyStore, check_spec, open_store

__all__ = ["AnyStore", "check_spec", "open_store"]
