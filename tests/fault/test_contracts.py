"""Quarantined records are written exactly once, in batches and in workers, whatever crashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clean_children import start, status_of
from tests.fault import contract_application as application

from millstream.core.failpoints import EXIT_STATUS
from millstream.runtime.in_process.batches import AFTER_PUBLISH, AFTER_STATE


@pytest.mark.parametrize(
    ("run", "points"),
    [
        (application.run_workers, ("worker.handed-over:2", "worker.published:3", "worker.stored:2")),
        (application.run_batches, (f"{AFTER_STATE}:2", f"{AFTER_PUBLISH}:3", f"{AFTER_STATE}:4")),
    ],
    ids=["workers", "batches"],
)
def test_each_bad_record_is_in_quarantine_once(
    run: Callable[..., Any], points: tuple[str, ...], tmp_path: Path
) -> None:
    application.fill(tmp_path)
    for point in points:
        assert status_of(start(run, tmp_path, point)) == EXIT_STATUS
    assert status_of(start(run, tmp_path, None)) == 0
    application.check(tmp_path)
