"""Text that people read: escaping, sizes, HTML for notebooks, and hints for unknown attributes."""

from __future__ import annotations
