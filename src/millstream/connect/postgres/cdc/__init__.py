"""Change data capture of PostgreSQL, by logical replication."""

from __future__ import annotations
