"""The database of a test, as the product names it."""

from __future__ import annotations

import pytest
from tests.connect.postgres.server import Database

from millstream.connect.postgres.client import Server


@pytest.fixture
def database(database: Database) -> Server:
    """A new, empty database."""
    return Server(host="127.0.0.1", database=database.name, user="postgres", port=database.server.port)
