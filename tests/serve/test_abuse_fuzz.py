"""Generated requests for all routes: a sample. `python -m tests.serve.fuzz --requests 20000` sends more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.serve.conftest import Serving
from tests.serve.fuzz import fuzz

from millstream.serve.access.roles import Role

pytestmark = pytest.mark.slow

REQUESTS = 300


@pytest.mark.timeout(300)
def test_generated_requests_get_the_answers_that_the_description_names(
    shop_data: Path, data: Path, serving: Serving
) -> None:
    shutil.copytree(shop_data, data)
    with serving(data) as server:
        findings = fuzz(server.client(Role.ADMIN), REQUESTS, 1)
        assert findings.sent >= REQUESTS
        assert findings.statuses.total() + findings.streams == findings.sent
        assert not findings.failures, "\n\n".join(f"{where}: {text}" for where, text in findings.failures.items())
        assert server.anonymous().get("/healthz").status == 200
        assert "Traceback" not in server.text()
