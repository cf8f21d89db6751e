"""The page Overview, with applications that run, fail, are killed and come back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.serve import shop
from tests.serve.browser import parcels
from tests.serve.browser.conftest import Console
from tests.serve.conftest import LiveShop, Serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def row_of(page: Page, table: str, name: str) -> Locator:
    """The row of an application or of a topic. Alerts name applications, too."""
    return page.get_by_role("table", name=table).get_by_role("row", name=name)


def test_records_that_arrive_move_the_figures(serving: Serving, live_shop: LiveShop, console: Console) -> None:
    with serving(live_shop.data) as server:
        page = console(server)
        row = row_of(page, "Applications", "shop")
        expect(row).to_contain_text("RUNNING")
        topic = row_of(page, "Topics", "orders")
        expect(topic.get_by_role("cell").nth(2)).to_have_text("0")
        for total in (40, 80):
            live_shop.produce("orders", *(shop.order("north", 1) for _ in range(40)))
            expect(topic.get_by_role("cell").nth(2)).to_have_text(str(total))
        expect(row).not_to_contain_text("0/s")  # records in, and out


def test_an_application_that_fails_is_first_with_the_users_line(
    serving: Serving, live_shop: LiveShop, console: Console
) -> None:
    data = live_shop.data
    parcels.create_topics(data)
    with serving(data) as server, parcels.running(data):
        page = console(server)
        row = row_of(page, "Applications", "parcels")
        expect(row).to_contain_text("RUNNING")
        parcels.produce(data, {"weight": 2})
        parcels.produce(data, {"problem": "no scales"})
        expect(row).to_contain_text("ERROR")
        expect(page.get_by_role("table", name="Applications").locator("tbody tr").first).to_contain_text("parcels")
        problem = page.locator(".problem")
        expect(problem).to_contain_text("no scales")
        expect(problem).to_contain_text("parcels.py")
        expect(row_of(page, "Applications", "shop")).to_contain_text("RUNNING")
        expect(page.get_by_role("table", name="Alerts")).to_contain_text("parcels")


def test_an_application_that_is_killed_and_comes_back(serving: Serving, data: Path, console: Console) -> None:
    parcels.create_topics(data)
    with serving(data) as server:
        with parcels.running(data) as process:
            page = console(server)
            row = row_of(page, "Applications", "parcels")
            expect(row).to_contain_text("RUNNING")
            process.send_signal(signal.SIGKILL)
            process.wait()
            expect(row).to_contain_text("KILLED")
            expect(page.locator(".problem")).to_contain_text("was killed")
        with parcels.running(data):
            expect(row).to_contain_text("RUNNING")
            expect(page.locator(".problem")).to_have_count(0)


def test_without_applications_it_says_how_to_start_one(serving: Serving, data: Path, console: Console) -> None:
    parcels.create_topics(data)
    with serving(data) as server:
        expect(console(server).get_by_text("No application has run")).to_be_visible()
