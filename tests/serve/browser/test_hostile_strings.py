"""Hostile strings in data, in errors and in addresses are inert text on every page."""

from __future__ import annotations

import functools
import json
import operator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.serve.browser import parcels
from tests.serve.browser.conftest import Console
from tests.serve.browser.hostile import IS_SAFE, STRINGS
from tests.serve.conftest import Serving
from tests.serve.servers import Server

from millstream import App, contract, rule
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


NAMES = [text for text in STRINGS if text.isprintable() and text.strip() and len(text) <= 100]
"""Those that may be the names of rules."""


def test_names_of_rules_and_values_of_the_configuration(serving: Serving, data: Path, console: Console) -> None:
    with open_log(data) as log:
        log.create_topic("events")
        log.produce("events", [ProducerRecord(b"k", json.dumps(name).encode()) for name in NAMES])
    rules = [rule(name, functools.partial(operator.ne, name)) for name in NAMES]  # each record violates one
    settings = {f"spark.hostile.{number}": text for number, text in enumerate(STRINGS)}
    app = App(
        "named", state_dir=str(data), status="none", commit_interval_ms=50, report_interval_ms=100, config=settings
    )
    app.stream("events", key=str, value="json", contract=contract(*rules, on_violation="drop")).to("out")
    alerts = data.parent / "alerts.toml"
    chosen = NAMES[::6]  # the page shows 20 alerts
    tables = (
        f"[[alerts.rules]]\nname = {json.dumps(name)}\nmetric = 'memory_bytes'\nthreshold = 0\n" for name in chosen
    )
    alerts.write_text("[alerts]\n" + "\n".join(tables))
    with serving(data, alerts=str(alerts)) as server, app.start(mode="local"):
        page = console(server, role=Role.VIEWER)
        alerting = page.get_by_role("table", name="Alerts").locator("td:nth-child(2)")
        expect(alerting.filter(has_not_text="contract violations")).to_have_count(len(chosen))
        assert set(chosen) <= set(alerting.all_text_contents())
        assert_safe(page)
        page.evaluate("location.hash = '#/applications/named'")
        dropped = page.locator("ul.pairs li span")
        expect(dropped).to_have_count(len(NAMES))
        shown = dropped.all_text_contents()
        for name in NAMES:
            assert any(name in text for text in shown), name
        assert_safe(page)
        page.evaluate("location.hash = '#/applications/named?tab=configuration'")
        expect(page.locator("table.configuration")).to_contain_text("<script>window.hacked=1</script>")
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
