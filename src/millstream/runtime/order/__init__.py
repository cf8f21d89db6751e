"""The order in which tasks process records: order positions, the limits of a batch, and the header of a position."""

from __future__ import annotations
