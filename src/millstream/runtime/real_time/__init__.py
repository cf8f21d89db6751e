"""Real-time execution: long-lived workers read, process and publish by themselves."""

from __future__ import annotations
