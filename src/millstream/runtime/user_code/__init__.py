"""The environment of user functions: their time limit, and their output."""

from __future__ import annotations
