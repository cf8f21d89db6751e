"""Hostile strings in data, in errors and in addresses are inert text on every page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.serve.browser import parcels
from tests.serve.browser.conftest import Console
from tests.serve.browser.hostile import IS_SAFE, STRINGS
from tests.serve.conftest import Serving
from tests.serve.servers import Server

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MARK = "␣"


def assert_safe(page: Page) -> None:
    assert page.evaluate(IS_SAFE) == []


def test_keys_values_headers_and_messages_of_dead_letters(serving: Serving, data: Path, console: Console) -> None:
    parcels.create_topics(data)
    with open_log(data) as log:
        records = [
            ProducerRecord(
                text.encode(), json.dumps({"problem": text, text: text}).encode(), None, ((text, text.encode()),)
            )
            for text in STRINGS
        ]
        log.produce("events", records)
    parcels.build(data, "continue").run(mode="local", until_caught_up=True)
    with serving(data) as server:
        page = console(server, "#/dead-letters", role=Role.VIEWER)
        page.locator(".summary").click()
        rows = page.locator("tr[data-row]")
        expect(rows).to_have_count(len(STRINGS))
        assert_safe(page)
        values = []
        for number in range(len(STRINGS)):
            rows.nth(number).dispatch_event("click")
            letter = page.locator(".letter")
            expect(letter).to_contain_text(f"offset {len(STRINGS) - 1 - number}")
            assert_safe(page)
            values.append(json.loads(letter.locator("pre.json").nth(2).text_content() or ""))
            rows.nth(number).dispatch_event("click")
        for value, text in zip(reversed(values), STRINGS, strict=True):
            # The page shows all of it. Characters that change the direction of a text are replaced by a mark.
            assert len(value["problem"]) == len(text)
            assert all(one in (other, MARK) for one, other in zip(value["problem"], text, strict=True))


def test_errors_of_an_application(serving: Serving, data: Path, console: Console) -> None:
    parcels.create_topics(data)
    with serving(data) as server, parcels.running(data) as process:
        page = console(server, role=Role.VIEWER)
        parcels.produce(data, {"problem": "\n".join(STRINGS)})
        expect(page.locator(".problem")).to_contain_text("<script>window.hacked=1</script>")
        assert_safe(page)
        process.wait()
        for address in ("#/applications/parcels", "#/applications/parcels?tab=errors"):
            page.evaluate("address => { location.hash = address }", address)
            expect(page.locator("main")).to_contain_text("<script>window.hacked=1</script>")
            assert_safe(page)


def test_addresses(shop_server: Server, console: Console) -> None:
    page = console(shop_server, role=Role.VIEWER)
    for form in ("#/applications/{}", "#/{}", "#/applications/shop?part={}&tab={}", "#/dead-letters/{}?cause={}"):
        for number, text in enumerate(STRINGS):
            page.evaluate(
                "([form, text]) => { location.hash = form.replaceAll('{}', encodeURIComponent(text)) }", [form, text]
            )
            if number % 8 == 0:
                expect(page.locator("header.bar")).to_be_visible()
                assert_safe(page)
        expect(page.locator("main h1")).to_be_visible()
        assert_safe(page)
    for text in STRINGS:
        page.evaluate("text => { location.hash = '#/applications/' + text }", text)  # not escaped
    page.evaluate("location.hash = '#/'")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert_safe(page)
