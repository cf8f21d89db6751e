"""The cases of ``tests/sql/cases``, in SQL or in JSON: each is a test of the SQL layer from statements to records."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.sql.testing.cases import AnyCase, read_cases
from millstream.sql.testing.local import LocalEngine
from millstream.sql.testing.report import PASSED
from millstream.sql.testing.runner import run_case

FILES = sorted(file for file in (Path(__file__).parent / "cases").iterdir() if file.suffix in {".sql", ".json"})
CASES = [(file, case) for file in FILES for case in read_cases(file)]


@pytest.mark.parametrize(("file", "case"), CASES, ids=[case.name for _, case in CASES])
def test_case(file: Path, case: AnyCase) -> None:
    result = run_case(file.name, case, LocalEngine)

    assert result.outcome == PASSED, result.message
    assert result.message_match is not False, "the statement fails with another message than the case expects"
