"""Hosts of sources, which end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.connect.postgres.cdc.host import Host
from tests.connect.postgres.server import Database


@pytest.fixture
def host(database: Database) -> Iterator[Callable[..., Host]]:
    """Makes a host of a source of the database."""
    made = []

    def make(**settings: Any) -> Host:
        made.append(Host(database, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()
