"""The PostgreSQL server of the tests."""

from __future__ import annotations

from tests.connect.postgres.conftest import database, postgres

__all__ = ["database", "postgres"]
