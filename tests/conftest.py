from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Parts of scripts that tests write and run, which cannot be imported here.
collect_ignore = ["runtime/kinds_application.py"]

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark come first, because each takes long. Those of one worker share a session."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
