"""Plans batches on the driver: which offsets each batch reads, and when one is due."""

from __future__ import annotations
