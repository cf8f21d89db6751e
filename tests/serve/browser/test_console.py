"""The frame of the console: sign-in, pages by keys, colours, and one stream of events for all tabs."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect
from tests.serve.browser.conftest import Console
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server, wait_until

from millstream.serve.access.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CONNECTIONS = 6
"""How many connections a browser opens to a host with HTTP/1.1."""


def free_streams(server: Server) -> int:
    """The number of event streams that can still be opened."""
    with ExitStack() as stack:
        for count in itertools.count():
            try:
                events = stack.enter_context(server.viewer.events("/api/v1/events", channel="applications"))
            except AssertionError:  # its status is not 200
                return count
            next(events)
    raise AssertionError


def test_the_printed_address_signs_in_once_and_the_code_leaves_the_address_and_the_history(
    serving: Serving, browser: Browser, live_shop: LiveShop
) -> None:
    with serving(live_shop.data) as server, browser.new_context() as context:
        page = context.new_page()
        page.goto(server.address)
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert "code" not in page.url
        assert page.evaluate("document.cookie") == ""  # scripts cannot read the session
        cookie = context.cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        page.reload()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.goto("about:blank")
        page.go_back()
        assert "code" not in page.url
    with serving(live_shop.data) as server, browser.new_context() as context:
        server.anonymous().post("/api/v1/session", {"code": server.code})  # someone was quicker
        page = context.new_page()
        page.goto(server.address)
        expect(page.get_by_label("Token")).to_be_visible()
        assert "code" not in page.url


def test_a_token_signs_in_with_its_role_and_a_wrong_one_is_refused(shop_server: Server, console: Console) -> None:
    page = console(shop_server, role=Role.VIEWER)
    page.get_by_role("button", name="viewer").click()  # signs out
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.get_by_label("Token").fill(shop_server.token(Role.OPERATOR))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="operator")).to_be_visible()


def test_keys_go_to_pages_select_rows_open_and_close(shop_server: Server, console: Console) -> None:
    page = console(shop_server, role=Role.VIEWER)
    expect(page.locator("tr[data-row]").first).to_contain_text("shop")
    page.keyboard.press("j")
    expect(page.locator("tr[data-row]:focus")).to_contain_text("shop")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    for keys, heading in (("gd", "Dead letters"), ("ga", "shop"), ("go", "Overview")):
        page.keyboard.type(keys)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.type("gd")
    expect(page.get_by_label("Search causes")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search causes")).to_be_focused()
    page.keyboard.type("go")  # in a field, letters are letters
    expect(page.get_by_label("Search causes")).to_have_value("go")


def test_colours_follow_the_system_until_the_switch_sets_them(shop_server: Server, console: Console) -> None:
    page = console(shop_server, role=Role.VIEWER, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Colours").click()  # light
    assert page.evaluate(ground) != dark
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Colours").click()  # dark
    page.get_by_role("button", name="Colours").click()  # as the system
    assert page.evaluate(ground) == dark


def test_an_unknown_page_says_so(shop_server: Server, console: Console) -> None:
    page = console(shop_server, "#/nothing", role=Role.VIEWER)
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_a_session_that_ends_leads_to_the_sign_in(shop_server: Server, console: Console) -> None:
    page = console(shop_server, role=Role.VIEWER)
    page.context.clear_cookies()
    page.keyboard.type("gd")
    expect(page.get_by_label("Token")).to_be_visible()


def test_eight_tabs_share_one_stream_and_another_tab_takes_it_over(
    serving: Serving, live_shop: LiveShop, console: Console
) -> None:
    leads = "import('./lib/events.js').then((events) => events.leads())"
    with serving(live_shop.data, most_streams=2) as server:
        first = console(server)
        tabs = [first, *(console(server, "#/applications/shop", context=first.context) for _ in range(7))]
        assert len(tabs) > CONNECTIONS
        for tab in tabs:
            expect(tab.locator(".stream")).to_have_class(re.compile("good"))  # it is live
        wait_until(lambda: [tab.evaluate(leads) for tab in tabs].count(True) == 1, "a tab leads")
        assert free_streams(server) == 1  # of two: all tabs have one
        leader = next(tab for tab in tabs if tab.evaluate(leads))
        leader.close()
        tabs.remove(leader)
        wait_until(lambda: [tab.evaluate(leads) for tab in tabs].count(True) == 1, "another tab leads")
        for tab in tabs:
            expect(tab.locator(".stream")).to_have_class(re.compile("good"))
        wait_until(lambda: free_streams(server) == 1, "the end of the stream of the closed tab")
        live_shop.handle.pause()
        for tab in tabs:
            expect(tab.locator(".state").first).to_contain_text("PAUSED")
