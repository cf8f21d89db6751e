"""What a running application shows: metrics and the status line."""

from __future__ import annotations
