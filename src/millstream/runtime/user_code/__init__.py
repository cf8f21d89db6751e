"""The environment of user functions: their time limit, their output, and garbage collection."""

from __future__ import annotations
