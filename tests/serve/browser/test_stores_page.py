"""The page Stores: rows by key, range, window and time, changes as they come, and one key that is watched."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.serve import shop
from tests.serve.browser.conftest import PHONE, Console
from tests.serve.browser.hostile import IS_SAFE, STRINGS
from tests.serve.conftest import LiveShop
from tests.serve.servers import Server, start_server

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role

CUSTOMERS = 250
LARGE = 9_007_199_254_740_993
"""An integer that the numbers of JavaScript cannot hold."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the data of `shop`, which has run, with many customers, and shops and customers of hostile names."""
    data = tmp_path_factory.mktemp("stores") / "data"
    shop.create_topics(data)
    shop.write_input(data)
    with open_log(data) as log:
        log.produce("customers", [shop.customer(number, f"name {number}", "") for number in range(10, CUSTOMERS + 10)])
        log.produce("customers", [shop.customer(LARGE, "large", "")])
        names = ["shop/slash", *STRINGS]
        log.produce("orders", [shop.order(name, 1, 50_000) for name in names])
        hostile = [
            ProducerRecord((1000 + number).to_bytes(8), json.dumps({"name": text, text: text}).encode())
            for number, text in enumerate(STRINGS)
        ]
        log.produce("customers", hostile)
    shop.build(data).run(mode="local", until_caught_up=True)
    with start_server(data) as server:
        yield server


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveShop]:
    """The application `shop`, running in this process."""
    data = tmp_path_factory.mktemp("live") / "data"
    shop.create_topics(data)
    with shop.build(data, report_interval_ms=50).start(mode="local") as handle:
        yield LiveShop(data, handle)


@pytest.fixture(scope="module")
def live_server(live: LiveShop) -> Iterator[Server]:
    """A server of `live`."""
    with start_server(live.data) as server:
        yield server


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Rows").locator("tbody tr[data-row]")


def find(page: Page, way: str, **fields: str) -> None:
    page.get_by_label("Find", exact=True).select_option(way)
    for label, text in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(text)
    page.get_by_role("button", name="Find").click()


def show(page: Page, address: str) -> None:
    page.evaluate("address => { location.hash = address }", address)


def test_stores_of_each_kind_are_listed_and_searched(server: Server, console: Console) -> None:
    page = console(server, "#/stores", role=Role.VIEWER)
    table = page.get_by_role("table", name="Stores")
    expect(table.locator("tbody tr")).to_have_count(5)
    for kind in ("key-value", "window", "session", "versioned"):
        expect(table).to_contain_text(kind)
    page.keyboard.press("/")
    page.keyboard.type("minu")
    expect(table.locator("tbody tr")).to_have_count(1)
    table.get_by_role("link", name="minutes").click()
    expect(page.get_by_role("heading", name="minutes")).to_be_visible()
    expect(page.locator("main")).to_contain_text("windows of 1 min")


def test_rows_by_key_prefix_and_range(server: Server, console: Console) -> None:
    page = console(server, "#/stores/shop/orders-of-shop", role=Role.VIEWER)
    expect(rows(page).first).to_be_visible()
    find(page, "key", Key="north")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator("td").last).to_have_text("3")
    find(page, "prefix", Prefix="sh")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("shop/slash")
    find(page, "range", From_key="north", To_key="south")
    expect(rows(page)).to_have_count(3)  # north, shop/slash, south
    page.get_by_label("Order").select_option("descending")
    page.get_by_role("button", name="Find").click()
    expect(rows(page).first).to_contain_text("south")
    find(page, "key", Key="nobody")
    expect(page.locator("main")).to_contain_text("No row matches.")
    page.reload()  # the query is in the address
    expect(page.get_by_label("Key", exact=True)).to_have_value("nobody")


def test_keys_that_are_no_text_are_json_and_integers_keep_their_digits(server: Server, console: Console) -> None:
    page = console(server, "#/stores/shop/customers", role=Role.VIEWER)
    find(page, "key", Key="17")
    expect(rows(page)).to_contain_text("name 17")
    find(page, "key", Key=str(LARGE))
    expect(rows(page)).to_contain_text(f"{LARGE}")
    rows(page).click()
    expect(page.locator(".record pre").first).to_have_text(str(LARGE))
    find(page, "key", Key="seventeen")
    expect(page.get_by_role("alert")).to_contain_text("not JSON")


def test_pages_continue_at_the_cursor(server: Server, console: Console) -> None:
    page = console(server, "#/stores/shop/customers", role=Role.VIEWER)
    total = CUSTOMERS + 3 + len(STRINGS)
    shown = 100
    while shown < total:
        expect(rows(page)).to_have_count(shown)
        page.get_by_role("button", name="More rows").click()
        shown = min(total, shown + 100)
    expect(rows(page)).to_have_count(total)
    expect(page.get_by_role("button", name="More rows")).to_have_count(0)
    expect(page.get_by_label("keep up to date")).not_to_be_checked()


def test_windows_sessions_and_versions(server: Server, console: Console) -> None:
    page = console(server, "#/stores/shop/minutes?time_from=60000", role=Role.VIEWER)
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("north")
    find(page, "key", Key="north", Starts_from="", to="1970-01-01T00:00:30")
    expect(page.locator("main")).to_contain_text("No row matches.")
    show(page, "#/stores/shop/visits?by=key&key=north")
    expect(rows(page)).not_to_have_count(0)
    rows(page).first.click()
    expect(page.locator(".record")).to_contain_text("window from")
    show(page, "#/stores/shop/prices")
    expect(rows(page)).to_contain_text("4")
    rows(page).click()
    page.get_by_role("button", name="All versions of this key").click()
    expect(rows(page)).to_have_count(2)
    show(page, "#/stores/shop/prices?as_of=1500")
    expect(rows(page)).to_contain_text("3")


def test_a_watched_key_shows_its_changes_and_a_chart(live_server: Server, live: LiveShop, console: Console) -> None:
    page = console(live_server, "#/stores/shop/orders-of-shop", role=Role.VIEWER)
    live.produce("orders", shop.order("north"), shop.order("south"))
    rows(page).filter(has_text="north").click()
    page.get_by_role("button", name="Watch this key").click()
    value = page.locator(".watch .big")
    expect(value).to_have_text("1")
    for number in (2, 3, 4):
        live.produce("orders", shop.order("north"))
        expect(value).to_have_text(str(number))
    live.produce("orders", shop.order("south"))  # not of this key
    expect(rows(page).filter(has_text="south")).to_contain_text("2")
    changes = page.get_by_role("table", name="Changes of the key").locator("tbody tr")
    expect(changes).to_have_count(4)
    expect(page.get_by_role("img", name="The numbers of the key").locator("canvas")).to_be_visible()
    page.get_by_role("button", name="Stop watching").click()
    expect(page.locator(".watch")).to_have_count(0)


def test_changes_are_shown_as_they_come(live_server: Server, live: LiveShop, console: Console) -> None:
    page = console(live_server, "#/stores/shop/prices?tab=changes", role=Role.VIEWER, size=PHONE)
    expect(page.locator("main")).to_contain_text("live")
    changes = page.get_by_role("table", name="Changes").locator("tbody tr")
    for number in range(1, 4):
        live.produce("prices", ProducerRecord(b"tea", number.to_bytes(8)))
        expect(changes).to_have_count(number)
        expect(changes.first).to_contain_text(str(number))
    page.get_by_role("button", name="Hold").click()
    live.produce("prices", ProducerRecord(b"milk", None), ProducerRecord(b"tea", None))
    expect(page.locator("main")).to_contain_text("5 changes")
    expect(changes).to_have_count(3)
    page.get_by_role("button", name="Continue").click()
    expect(changes.first).to_contain_text("deleted")


def test_hostile_keys_and_values_are_inert(server: Server, console: Console) -> None:
    page = console(server, "#/stores/shop/orders-of-shop", role=Role.VIEWER)
    expect(rows(page)).to_have_count(min(100, len(STRINGS) + 3))
    assert page.evaluate(IS_SAFE) == []
    for number in range(0, len(STRINGS), 14):
        rows(page).nth(number).dispatch_event("click")
        expect(page.locator(".record")).to_be_visible()
        assert page.evaluate(IS_SAFE) == []
        page.get_by_role("button", name="Watch this key").click()
        expect(page.locator(".watch")).to_be_visible()
        assert page.evaluate(IS_SAFE) == []
        rows(page).nth(number).dispatch_event("click")
    show(page, "#/stores/shop/customers?by=range&from=1000")
    for number in range(0, len(STRINGS), 14):
        rows(page).nth(number).dispatch_event("click")
        expect(page.locator(".record")).to_contain_text('"name"')
        assert page.evaluate(IS_SAFE) == []
        rows(page).nth(number).dispatch_event("click")
    for text in STRINGS[::15]:
        for form in (
            "#/stores/shop/{}",
            "#/stores/{}/x",
            "#/stores/shop/minutes?by=key&key={}&watch={}&tab={}&time_from={}",
        ):
            page.evaluate(
                "([form, text]) => { location.hash = form.replaceAll('{}', encodeURIComponent(text)) }", [form, text]
            )
            expect(page.locator("main h1")).to_be_visible()
            assert page.evaluate(IS_SAFE) == []
