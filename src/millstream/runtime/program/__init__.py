"""The program: what the driver sends to the processes that run an application."""

from __future__ import annotations
