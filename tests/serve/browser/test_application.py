"""The page of an application: its topology with live figures, its charts, its errors, and commands by role."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.serve import shop
from tests.serve.browser import parcels
from tests.serve.browser.conftest import Console
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server

from millstream.serve.access.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SHOP = "#/applications/shop"


def vertex(page: Page, name: str) -> None:
    """Chooses a part of the topology."""
    page.get_by_role("button", name=name, exact=True).click()


def test_the_topology_has_operators_topics_stores_and_sub_topologies(shop_server: Server, console: Console) -> None:
    page = console(shop_server, SHOP, role=Role.VIEWER)
    for name in (
        "topic orders",
        "operator orders-source",
        "store orders-of-shop",
        "store minutes",
        "store visits",
        "topic counts",
    ):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    assert page.locator(".topology .group").count() > 1
    expect(page.locator(".topology .edge text").filter(has_text="json").first).to_be_visible()  # the schema of an edge
    expect(page.locator(".topology .lost")).not_to_have_count(0)  # the order that violates the contract


def test_details_show_the_users_line_the_stores_and_the_schema(shop_server: Server, console: Console) -> None:
    page = console(shop_server, SHOP, role=Role.VIEWER)
    details = page.locator(".vertex-details")
    vertex(page, "operator orders-source")
    expect(details).to_contain_text("shop.py")
    vertex(page, "store prices")
    expect(details).to_contain_text("versioned")
    expect(details.get_by_role("link", name="rows")).to_have_attribute("href", "#/stores/shop/prices")
    page.reload()  # the address has the choice
    expect(details).to_contain_text("versioned")
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)


def test_records_that_arrive_move_the_topology_and_the_charts(
    serving: Serving, live_shop: LiveShop, console: Console
) -> None:
    with serving(live_shop.data) as server:
        page = console(server, SHOP)
        source = page.locator("[data-vertex='operator:orders-source']")
        expect(source).to_contain_text("0/s")
        for _ in range(3):
            live_shop.produce("orders", *(shop.order("north") for _ in range(50)))
            expect(source).to_contain_text(re.compile(r"[1-9][\d.]*/s"))
        expect(page.locator(".edge.moving")).not_to_have_count(0)
        vertex(page, "operator orders-source")
        expect(page.locator(".vertex-details")).to_contain_text(re.compile(r"records in\s*150"))
        vertex(page, "store orders-of-shop")
        expect(page.locator(".vertex-details")).to_contain_text(re.compile(r"rows\s*1"))
        page.get_by_role("link", name="Charts").click()
        expect(page.get_by_role("img", name="Records per second", exact=True).locator("canvas")).to_be_visible()
        expect(page.get_by_role("heading", name="Commit time by phase")).to_be_visible()


def test_an_operator_pauses_and_resumes_and_only_an_admin_stops(
    serving: Serving, live_shop: LiveShop, console: Console
) -> None:
    with serving(live_shop.data) as server:
        viewer = console(server, SHOP, role=Role.VIEWER)
        expect(viewer.get_by_role("button", name="Pause")).to_be_disabled()
        operator = console(server, SHOP, role=Role.OPERATOR)
        expect(operator.get_by_role("button", name="Stop")).to_be_disabled()
        operator.get_by_role("button", name="Pause").click()
        expect(viewer.locator(".head .state")).to_contain_text("PAUSED")
        operator.get_by_role("button", name="Resume").click()
        expect(viewer.locator(".head .state")).to_contain_text("RUNNING")
        admin = console(server, SHOP)
        admin.get_by_role("button", name="Stop").click()
        dialog = admin.get_by_role("dialog")
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        admin.get_by_role("button", name="Stop").click()
        dialog.get_by_role("button", name="Stop").click()
        for page in (admin, viewer):
            expect(page.locator(".head .state")).to_contain_text("NOT_RUNNING")
        expect(admin.get_by_role("button", name="Stop")).to_have_count(0)


def test_an_application_that_fails_shows_the_line_and_the_record(
    serving: Serving, data: Path, console: Console
) -> None:
    parcels.create_topics(data)
    with serving(data) as server, parcels.running(data):
        page = console(server, "#/applications/parcels")
        expect(page.locator(".head .state")).to_contain_text("RUNNING")
        parcels.produce(data, {"problem": "no scales"})
        expect(page.locator(".head .state")).to_contain_text("ERROR")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("parcels.py")
        expect(alert).to_contain_text("offset 0")
        page.get_by_role("link", name=re.compile("Errors")).click()
        expect(page.locator(".errors")).to_contain_text("no scales")
        expect(page.locator(".failed-record")).to_contain_text('"problem": "no scales"')  # the value, from the topic


def test_an_application_that_is_killed_and_comes_back(serving: Serving, data: Path, console: Console) -> None:
    parcels.create_topics(data)
    with serving(data) as server:
        with parcels.running(data) as process:
            page = console(server, "#/applications/parcels")
            state = page.locator(".head .state")
            expect(state).to_contain_text("RUNNING")
            parcels.produce(data, {"weight": 1})
            expect(page.locator("[data-vertex='store:events-of-parcel']")).to_contain_text("1 rows")
            process.send_signal(signal.SIGKILL)
            process.wait()
            expect(state).to_contain_text("KILLED")
            expect(page.get_by_role("alert")).to_contain_text("continues from there")
            expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        with parcels.running(data):
            expect(state).to_contain_text("RUNNING")
            expect(page.get_by_role("alert")).to_have_count(0)
            parcels.produce(data, {"weight": 1}, key="p2")
            expect(page.locator("[data-vertex='store:events-of-parcel']")).to_contain_text("2 rows")


def test_the_configuration_is_searched_and_hides_secrets(serving: Serving, data: Path, console: Console) -> None:
    shop.create_topics(data)
    config = {"sasl.password": "hush", "security.protocol": "PLAINTEXT"}
    app = shop.build(data, config=config)
    app.run(mode="local", until_caught_up=True)
    with serving(data) as server:
        page = console(server, SHOP + "?tab=configuration", role=Role.VIEWER)
        page.get_by_label("Search").fill("sasl.pass")
        expect(page.locator(".configuration")).to_contain_text("[hidden]")
        assert "hush" not in page.content()


def test_an_unknown_application_is_an_error_that_names_the_others(shop_server: Server, console: Console) -> None:
    page = console(shop_server, "#/applications/ship", role=Role.VIEWER)
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'shop'")
