"""The page Topics: records from either end, an offset or a time; as they come; records that are produced; groups."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.serve import shop
from tests.serve.browser.conftest import PHONE, Console
from tests.serve.browser.hostile import IS_SAFE, STRINGS
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server, start_server

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role

NUMBERS = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of topics: of numbers, and of hostile strings."""
    data = tmp_path_factory.mktemp("topics") / "data"
    shop.run(data)
    with open_log(data) as log:
        log.create_topic("numbers", 2)
        log.produce(
            "numbers",
            [
                ProducerRecord(None, f"number {number}".encode(), number * 1000, (), number % 2)
                for number in range(NUMBERS)
            ],
        )
        log.create_topic("hostile")
        log.produce(
            "hostile",
            [
                ProducerRecord(
                    text.encode(), json.dumps({text: text}).encode(), None, ((text, text.encode()), ("n", None))
                )
                for text in STRINGS
            ],
        )
        log.produce("hostile", [ProducerRecord(b"\xff\xfe", b"\x00\xff", None, (("bytes", b"\xff"),))])
    with start_server(data) as server:
        yield server


def rows(page: Page, label: str = "Records") -> Locator:
    return page.get_by_role("table", name=label, exact=True).locator("tbody tr[data-row]")


def show(page: Page, address: str) -> None:
    page.evaluate("address => { location.hash = address }", address)


def test_topics_are_listed_and_internal_ones_hidden(server: Server, console: Console) -> None:
    page = console(server, "#/topics", role=Role.VIEWER)
    topics = page.get_by_role("table", name="Topics").locator("tbody tr")
    expect(topics.filter(has_text="numbers")).to_contain_text(str(NUMBERS))
    expect(topics.filter(has_text="changelog")).to_have_count(0)
    page.get_by_label("internal topics").check()
    expect(topics.filter(has_text="shop-prices-changelog")).to_contain_text("internal")
    page.get_by_label("Search").fill("numb")
    expect(topics).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="numbers")).to_be_visible()


def test_records_from_either_end_from_an_offset_and_from_a_time(server: Server, console: Console) -> None:
    page = console(server, "#/topics/numbers", role=Role.VIEWER)
    expect(rows(page).first).to_contain_text(f"number {NUMBERS - 1}")
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="Older records").click()
    expect(rows(page)).to_have_count(100)
    page.get_by_role("button", name="Older records").click()
    expect(rows(page)).to_have_count(NUMBERS)
    expect(rows(page).last).to_contain_text("number 0")
    expect(page.locator("main")).to_contain_text("that is all")
    page.get_by_label("Show", exact=True).select_option("start")
    expect(rows(page).first).to_contain_text("number 0")
    page.get_by_label("Partition").select_option("1")
    expect(rows(page).first).to_contain_text("number 1")
    page.get_by_label("Show", exact=True).select_option("offset")
    page.get_by_label("Offset", exact=True).fill("55")
    page.get_by_label("Offset", exact=True).press("Enter")
    expect(rows(page)).to_have_count(5)
    expect(rows(page).first).to_contain_text("number 111")
    page.get_by_label("Show", exact=True).select_option("time")
    page.get_by_label("Time", exact=True).fill("1970-01-01T00:01:51")
    page.get_by_label("Time", exact=True).blur()
    expect(rows(page)).to_have_count(5)
    page.get_by_label("Find in what is shown").fill("113")
    expect(rows(page)).to_have_count(1)


def test_a_record_shows_its_headers_and_bytes(server: Server, console: Console) -> None:
    page = console(server, "#/topics/hostile", role=Role.VIEWER)
    rows(page).filter(has_text="//4=").click()
    record = page.locator(".record")
    expect(record).to_contain_text("base64")
    expect(record.get_by_role("table", name="Headers")).to_contain_text("base64: /w==")


def test_partitions_schema_and_consumers(server: Server, console: Console) -> None:
    page = console(server, "#/topics/orders?tab=partitions", role=Role.VIEWER, size=PHONE)
    expect(page.get_by_role("table", name="Partitions").locator("tbody tr")).to_have_count(2)
    show(page, "#/topics/orders?tab=schema")
    expect(page.locator("main")).to_contain_text("string")
    show(page, "#/topics/orders?tab=consumers")
    expect(page.get_by_role("table", name="Consumers").locator("tbody tr")).to_have_count(2)
    show(page, "#/topics?list=groups")
    groups = page.get_by_role("table", name="Consumer groups")
    groups.get_by_text("shop", exact=True).click()
    expect(page.get_by_role("table", name="Offsets of shop")).to_contain_text("prices")


def test_records_are_shown_as_they_come_and_the_lag_of_a_group(
    serving: Serving, live_shop: LiveShop, console: Console
) -> None:
    live_shop.produce("orders", shop.order("before"))
    with serving(live_shop.data) as server:
        page = console(server, "#/topics/orders", role=Role.VIEWER)
        expect(rows(page)).to_have_count(1)
        page.get_by_role("button", name="Follow").click()
        live = rows(page, "Live records")
        expect(live).to_have_count(1)
        expect(page.locator(".stream.good")).to_be_visible()  # by events, not by asking again
        for number in range(1, 5):
            live_shop.produce("orders", shop.order(f"shop {number}"))
            expect(live.first).to_contain_text(f"shop {number}")
        expect(live).to_have_count(5)
        expect(page.locator("main")).to_contain_text("4 new records")
        page.get_by_role("button", name="Hold").click()
        live_shop.produce("orders", shop.order("held"))
        expect(page.locator("main")).to_contain_text("5 new records")
        expect(live.first).to_contain_text("shop 4")
        page.get_by_role("button", name="Continue").click()
        expect(live.first).to_contain_text("held")
        page.get_by_role("button", name="Stop following").click()
        expect(rows(page)).to_have_count(6)

        show(page, "#/topics?list=groups")
        lag = page.get_by_role("table", name="Consumer groups").locator("tbody tr").first.locator("td").last
        expect(lag).to_have_text("0")
        live_shop.handle.stop()
        live_shop.produce("orders", *(shop.order("late") for _ in range(7)))
        expect(lag).to_have_text("7")


def test_an_operator_produces_a_record_and_a_viewer_cannot(server: Server, console: Console) -> None:
    page = console(server, "#/topics/orders", role=Role.OPERATOR)
    page.get_by_role("button", name="Produce a record").click()
    page.get_by_label("Key", exact=True).fill("north")
    page.get_by_label("Value", exact=True).fill('{"shop": "north"')
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("the value is not JSON")
    page.get_by_label("Value", exact=True).fill('{"shop": "north", "amount": 9007199254740993}')
    page.get_by_role("button", name="+ header").click()
    page.get_by_label("Header", exact=True).fill("from")
    page.get_by_label("Value of the header").fill("<b>console</b>")
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Written")).to_contain_text("Written to partition")
    page.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Read again").click()
    expect(rows(page).first).to_contain_text("9007199254740993")
    rows(page).first.click()
    expect(page.get_by_role("table", name="Headers")).to_contain_text("<b>console</b>")
    viewer = console(server, "#/topics/orders", role=Role.VIEWER)
    expect(viewer.get_by_role("button", name="Produce a record")).to_be_disabled()


def test_hostile_keys_values_and_headers_are_inert(server: Server, console: Console) -> None:
    page = console(server, "#/topics/hostile?from=start", role=Role.OPERATOR)
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="More records").click()
    expect(rows(page)).to_have_count(len(STRINGS) + 1)
    assert page.evaluate(IS_SAFE) == []
    for number in range(0, len(STRINGS), 5):
        rows(page).nth(number).dispatch_event("click")
        expect(page.locator(".record")).to_be_visible()
        assert page.evaluate(IS_SAFE) == []
        shown = json.loads(page.locator(".record pre").last.text_content() or "")
        assert shown == {STRINGS[number]: STRINGS[number]}  # unchanged
        if number % 20 == 0:
            page.get_by_role("button", name="Produce one like it").click()
            expect(page.get_by_label("Value", exact=True)).not_to_be_empty()
            assert page.evaluate(IS_SAFE) == []
            page.get_by_role("button", name="Close").last.click()
        rows(page).nth(number).dispatch_event("click")
    show(page, "#/topics/hostile?from=follow")
    expect(rows(page, "Live records").first).to_be_visible()
    assert page.evaluate(IS_SAFE) == []
    for text in STRINGS[::15]:
        for form in (
            "#/topics/{}",
            "#/topics?list=groups&search={}&group={}",
            "#/topics/numbers?from=offset&offset={}&partition={}&time={}",
        ):
            page.evaluate(
                "([form, text]) => { location.hash = form.replaceAll('{}', encodeURIComponent(text)) }", [form, text]
            )
            expect(page.locator("main h1")).to_be_visible()
            assert page.evaluate(IS_SAFE) == []
