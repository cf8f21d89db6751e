from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.log.embedded import EmbeddedLog, open_log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def log(directory: Path) -> Iterator[EmbeddedLog]:
    with open_log(directory) as opened:
        yield opened
