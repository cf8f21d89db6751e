"""The page Dead letters: causes, records, and their replay."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.serve.browser import parcels
from tests.serve.browser.conftest import Console
from tests.serve.conftest import Serving

from millstream.serve.access.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PAGE = "#/dead-letters"


def test_dead_letters_that_arrive_are_grouped_by_cause_and_replayed(
    serving: Serving, data: Path, console: Console
) -> None:
    parcels.create_topics(data)
    with serving(data) as server, parcels.running(data, "continue"):
        page = console(server, PAGE)
        expect(page.get_by_text("There are none.")).to_be_visible()
        parcels.produce(data, {"problem": "no scales"}, {"city": "Oslo"}, {"weight": 1}, {"city": "Riga"})
        missing = page.locator(".cause").filter(has_text="KeyError")
        expect(missing.locator(".how-many")).to_contain_text("2")
        expect(page.locator(".cause").filter(has_text="ValueError")).to_contain_text("no scales")

        missing.locator(".summary").click()
        rows = missing.locator("tr[data-row]")
        expect(rows).to_have_count(2)
        rows.first.click()
        letter = missing.locator(".letter")
        expect(letter).to_contain_text("partition 0, offset 3")  # the newest is first
        expect(letter).to_contain_text('"city": "Riga"')
        letter.get_by_role("button", name="Replay this record").click()
        page.get_by_role("dialog").get_by_role("button", name="Replay").click()
        expect(missing).to_contain_text("1 records were written back")
        # The application has processed the record again, and failed again: a new dead letter.
        expect(missing.locator(".how-many")).to_contain_text("3")
        expect(rows.filter(has_text="failed again")).to_have_count(1)
        expect(rows.filter(has_text="replayed")).to_have_count(1)

        page.get_by_label("Search causes").fill("valueerror")
        expect(page.locator(".cause")).to_have_count(1)
        page.get_by_label("Search causes").fill("")
        page.get_by_label("to replay").check()
        expect(page.locator(".cause")).to_have_count(2)


def test_a_viewer_sees_them_and_does_not_replay(serving: Serving, data: Path, console: Console) -> None:
    parcels.create_topics(data)
    parcels.produce(data, {"problem": "no scales"})
    parcels.build(data, "continue").run(mode="local", until_caught_up=True)
    with serving(data) as server:
        page = console(server, PAGE, role=Role.VIEWER)
        page.locator(".summary").click()
        expect(page.get_by_role("button", name="Replay all 1")).to_be_disabled()
