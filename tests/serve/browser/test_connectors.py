"""The connectors of an application on its page: states, figures, errors, and commands by role."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.connect.plugins import Lines, Rows
from tests.serve.browser.conftest import Console
from tests.serve.conftest import Serving

from millstream import App
from millstream.serve.access.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

HOSTILE = "<img src=x onerror=alert(1)>"


def test_connectors_have_states_figures_errors_and_commands(tmp_path: Path, serving: Serving, console: Console) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(f"k:1\nk:{HOSTILE}\nk:poison\n")
    app = App("pipes", config={"state.dir": str(tmp_path / "data"), "status": "none", "report.interval.ms": 100})
    app.connect("files", Lines(tmp_path / "in", "lines"), key=str, value=str)
    app.connect("table", Rows(tmp_path / "rows.db"), topics=["lines"], value=str)
    with app.start(), serving(tmp_path / "data") as server:
        page = console(server, "#/applications/pipes", role=Role.ADMIN)
        files, table = page.locator(".panel").filter(has_text="files"), page.locator(".panel").filter(has_text="table")
        expect(files.locator("header .state")).to_have_text("RUNNING")  # there is no topology: the tab is the first
        expect(files).to_contain_text("bytes")
        expect(table.locator("header .state")).to_have_text("FAILED")
        expect(table).to_contain_text("it is poison")
        expect(table).to_contain_text("on_error='continue'")
        files.get_by_role("button", name="Pause").click()
        expect(files.locator("header .state")).to_have_text("PAUSED")
        files.get_by_role("button", name="Resume").click()
        expect(files.locator("header .state")).to_have_text("RUNNING")
        page = console(server, "#/applications/pipes", role=Role.VIEWER)
        button = page.locator(".panel").filter(has_text="files").get_by_role("button", name="Pause")
        expect(button).to_be_disabled()
        page.screenshot(path=tmp_path / "connectors.png")
