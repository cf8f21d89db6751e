"""The registries under test: the embedded one, and those with Confluent's API."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.registry import SchemaRegistry
from millstream.registry.embedded import EmbeddedRegistry

_numbers = itertools.count()


@pytest.fixture
def embedded(tmp_path: Path) -> EmbeddedRegistry:
    return EmbeddedRegistry(tmp_path / "data")


@pytest.fixture(params=["embedded"])
def registry(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    """A registry whose global level is BACKWARD."""
    registry: SchemaRegistry = request.getfixturevalue(request.param)
    yield registry
    registry.close()


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses: some registries serve the whole session."""
    return f"orders-{next(_numbers)}-value"
