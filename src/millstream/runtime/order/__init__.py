"""The order in which tasks process records: order positions, the order of a batch, and the header of a position."""

from __future__ import annotations
