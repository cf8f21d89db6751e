"""Threads that run applications: an application has threads of its own, or shares those of many applications."""

from __future__ import annotations
