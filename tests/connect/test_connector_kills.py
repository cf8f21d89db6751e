"""Kill -9 of an application with connectors."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.connect.killing import POINTS, kill_often


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_record_passes_once_when_processes_are_killed(tmp_path: Path) -> None:
    kill_often(tmp_path, POINTS, 5)
