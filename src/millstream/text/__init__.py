"""Text for people: escaping, sizes, HTML for notebooks, and suggestions for misspelt names."""

from __future__ import annotations
