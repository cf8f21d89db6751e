"""The output of a running application: metrics and the status line."""

from __future__ import annotations
