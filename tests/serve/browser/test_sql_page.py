"""The page SQL: the editor, its completion, marks and history; answers, EXPLAIN, and the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.serve.browser.conftest import PHONE, Console
from tests.serve.browser.hostile import IS_SAFE, STRINGS
from tests.serve.servers import Server, start_server, wait_until

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role

ORDERS = (
    "CREATE STREAM orders (id VARCHAR KEY, shop VARCHAR, amount INT) WITH (kafka_topic='orders', value_format='JSON');"
)
TEXTS = "CREATE STREAM texts (id VARCHAR KEY, `<b>text</b>` VARCHAR) WITH (kafka_topic='texts', value_format='JSON');"
TOTALS = "CREATE TABLE totals AS SELECT shop, SUM(amount) AS total FROM orders GROUP BY shop EMIT CHANGES;"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs SQL, with two streams and a table."""
    data = tmp_path_factory.mktemp("sql") / "data"
    with open_log(data) as log:
        log.create_topic("orders")
        log.create_topic("texts")
        log.produce("texts", [record(str(number), **{"<b>text</b>": text}) for number, text in enumerate(STRINGS)])
    with start_server(data) as server:
        wait_until(lambda: server.viewer.get("/healthcheck").status == 200, "SQL runs")
        for statement in (ORDERS, TEXTS, TOTALS):
            answer = server.admin.post("/ksql", {"ksql": statement})
            assert answer.status == 200, answer.body
        yield server


def record(key: str, **value: object) -> ProducerRecord:
    return ProducerRecord(key.encode(), json.dumps(value).encode())


def produce(server: Server, shop: str, amount: int) -> None:
    with open_log(Path(server.data)) as log:
        log.produce("orders", [record("1", SHOP=shop, AMOUNT=amount)])


def write(page: Page, text: str) -> None:
    page.get_by_label("SQL", exact=True).fill(text)


def run(page: Page, text: str) -> None:
    write(page, text)
    page.keyboard.press("Control+Enter")


def test_a_push_query_is_a_live_table_and_a_chart(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    page.get_by_label("Read from").select_option("earliest")
    run(page, "SELECT shop, amount, amount * 2 AS twice FROM orders WHERE shop = 'push' EMIT CHANGES;")
    expect(page.locator(".result")).to_contain_text("running")
    rows = page.get_by_role("table", name="Result").locator("tbody tr")
    produce(server, "push", 1)
    expect(rows.first).to_contain_text("push")
    for amount in (20, 30):
        produce(server, "push", amount)
        expect(rows.first).to_contain_text(str(amount * 2))
    expect(rows).to_have_count(3)
    page.get_by_label("Show", exact=True).select_option(label="the latest by SHOP")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("60")
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("img", name="TWICE over time").locator("canvas")).to_be_visible()
    expect(page.locator(".result")).to_contain_text("push")  # the line of the shop
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".result")).to_contain_text("stopped")


def test_a_query_ends_when_the_page_is_left(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    with page.expect_request("**/query-stream") as request:
        run(page, "SELECT * FROM orders EMIT CHANGES;")
        expect(page.locator(".result")).to_contain_text("running")
    with page.expect_event("requestfailed", lambda failed: failed == request.value):
        page.evaluate("location.hash = '#/topics'")


def test_queries_leave_connections_for_the_rest_of_the_page(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    run(page, "SELECT shop FROM orders EMIT CHANGES;" * 6)
    results = page.locator(".result")
    expect(results).to_have_count(6)
    refused = results.filter(has_text="4 queries are running in this browser")
    expect(refused).to_have_count(2)
    run(page, "SHOW STREAMS;")  # it ends the queries
    expect(results).to_contain_text("ORDERS")
    run(page, "SELECT shop FROM orders EMIT CHANGES;")
    expect(results).to_contain_text("No rows yet")


def test_a_pull_query_answers_once(server: Server, console: Console) -> None:
    produce(server, "pull", 7)
    page = console(server, "#/sql", role=Role.VIEWER)
    row = page.get_by_role("table", name="Result").locator("tbody tr")

    def has_row() -> bool:
        run(page, "SELECT * FROM totals WHERE shop = 'pull';")
        expect(page.locator(".result")).to_contain_text("complete")
        return row.count() == 1

    wait_until(has_row, "the table has the row")
    expect(row).to_contain_text("7")


def test_mistakes_are_marked_under_their_place(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    write(page, "-- \N{WATER WAVE} comment\nSELECT shop, amoun FROM orders EMIT CHANGES;")
    expect(page.locator(".copy .wrong")).to_have_text("amoun")
    mistakes = page.get_by_role("list", name="Mistakes")
    expect(mistakes).to_contain_text("2:14")
    mistakes.get_by_role("button").click()
    assert page.evaluate("getSelection().toString()") == "amoun"
    page.keyboard.type("amount")
    expect(page.locator(".copy .wrong")).to_have_count(0)
    expect(mistakes).to_have_count(0)


def test_words_and_names_are_completed(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    field = page.get_by_label("SQL", exact=True)
    options = page.get_by_role("listbox", name="Completions").get_by_role("option")
    field.press_sequentially("SELECT * FROM tot")
    expect(options.filter(has_text="TOTALS")).to_be_visible()
    page.keyboard.press("Tab")
    expect(field).to_have_value("SELECT * FROM TOTALS")
    expect(options).to_have_count(0)
    field.press_sequentially(" WH")
    expect(options.filter(has_text="WHERE")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(options).to_have_count(0)
    expect(field).to_be_focused()
    field.press_sequentially(" sho")
    expect(options.first).to_be_visible()
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_be_focused()
    page.keyboard.press("Control+Space")
    options.filter(has_text="SHOP").first.click()
    expect(field).to_have_value("SELECT * FROM TOTALS WHERE SHOP")


def test_texts_that_were_run_are_in_the_history(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    field = page.get_by_label("SQL", exact=True)
    for text in ("SHOW STREAMS;", "SHOW TABLES;"):
        run(page, text)
        expect(page.locator(".result h2")).to_have_text(text)
    write(page, "a draft")
    for text, key in (("SHOW TABLES;", "Up"), ("SHOW STREAMS;", "Up"), ("SHOW TABLES;", "Down"), ("a draft", "Down")):
        page.keyboard.press(f"Control+Arrow{key}")
        expect(field).to_have_value(text)
    page.get_by_role("button", name="History").click()
    page.get_by_role("dialog").get_by_text("SHOW STREAMS;").click()
    expect(field).to_have_value("SHOW STREAMS;")
    page.reload()
    expect(field).to_have_value("SHOW STREAMS;")


def test_several_statements_and_the_session(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    with open_log(Path(server.data)) as log:
        log.produce("orders", [record("1", SHOP="earlier", AMOUNT=1)])
    query = "SELECT shop FROM orders EMIT CHANGES LIMIT 1;"
    run(page, f"SET 'auto.offset.reset' = 'earliest'; SHOW STREAMS; DESCRIBE totals; {query}")
    results = page.locator(".result")
    expect(results).to_have_count(4)
    expect(results.nth(1)).to_contain_text("ORDERS")
    expect(results.nth(2)).to_contain_text("TOTAL")
    expect(results.nth(3)).to_contain_text("Limit Reached")  # of a record that was there
    expect(page.get_by_label("Read from")).to_have_value("earliest")
    run(page, "SHOW STREAMS; SHOW NOTHING; SHOW TABLES;")
    expect(results).to_have_count(1)
    expect(page.get_by_role("alert")).to_be_visible()


def test_explain_shows_the_topology(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    write(page, "SELECT shop, COUNT(*) AS n FROM orders WHERE amount > 3 GROUP BY shop EMIT CHANGES;")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".result")).to_contain_text("push query")
    expect(page.get_by_role("button", name="topic orders")).to_be_visible()
    page.locator(".vertex.operator").first.click()
    expect(page.locator(".vertex-details")).to_be_visible()
    run(page, "EXPLAIN SELECT * FROM totals WHERE shop = 'north';")
    expect(page.locator(".result pre")).to_contain_text("by key 'north'")


def test_an_admin_controls_queries_in_the_catalogue(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.ADMIN)
    run(page, "CREATE TABLE twice AS SELECT shop, SUM(amount) * 2 AS total FROM orders GROUP BY shop EMIT CHANGES;")
    expect(page.locator(".result")).to_contain_text("CTAS_TWICE")
    query = page.locator(".catalog li").filter(has_text="CTAS_TWICE")
    expect(query).to_contain_text("RUNNING")
    query.locator(".fold").click()
    query.get_by_role("button", name="pause").click()
    expect(query).to_contain_text("PAUSED")
    query.get_by_role("button", name="resume").click()
    expect(query).to_contain_text("RUNNING")
    query.get_by_role("button", name="explain").click()
    expect(page.locator(".vertex.store")).to_have_count(1)
    query.get_by_role("button", name="terminate").click()
    page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    expect(query).to_have_count(0)


def test_a_viewer_may_only_read(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER, size=PHONE)
    run(page, "DROP TABLE totals;")
    expect(page.get_by_role("alert")).to_contain_text("needs the role admin")
    query = page.locator(".catalog li").filter(has_text="CTAS_TOTALS")
    query.locator(".fold").click()
    for name in ("pause", "terminate"):
        expect(query.get_by_role("button", name=name)).to_be_disabled()
    table = page.locator(".catalog li").filter(has_text="TOTALS").first
    table.locator(".fold").click()
    expect(table).to_contain_text("TOTAL")
    table.get_by_role("button", name="follow").click()
    expect(page.get_by_label("SQL", exact=True)).to_have_value("SELECT * FROM TOTALS EMIT CHANGES;")


def test_hostile_texts_and_values_are_inert(server: Server, console: Console) -> None:
    page = console(server, "#/sql", role=Role.VIEWER)
    page.get_by_label("Read from").select_option("earliest")
    run(page, f"SELECT *, '{STRINGS[0]}' AS `<img src=x onerror=window.hacked=1>` FROM texts EMIT CHANGES;")
    rows = page.get_by_role("table", name="Result").locator("tbody tr")
    expect(rows).to_have_count(len(STRINGS))
    assert page.evaluate(IS_SAFE) == []
    run(page, "PRINT texts FROM BEGINNING LIMIT 100;")
    expect(page.locator(".result .lines")).to_contain_text("window.hacked=1")
    assert page.evaluate(IS_SAFE) == []
    for text in STRINGS[::8]:
        run(page, text)
        assert page.evaluate(IS_SAFE) == []
        run(page, f"SELECT '{text.replace(chr(39), chr(39) * 2)}' FROM texts;")
        expect(page.locator(".result").first).to_be_visible()
        assert page.evaluate(IS_SAFE) == []
        write(page, f"SELECT `{text}` FROM orders EMIT CHANGES;")
        expect(page.locator(".mistakes, .copy .quoted").first).to_be_visible()
        assert page.evaluate(IS_SAFE) == []
    page.locator(".catalog li").filter(has_text="TEXTS").locator(".fold").click()
    expect(page.locator(".catalog")).to_contain_text("<b>text</b>")
    page.get_by_role("button", name="History").click()
    expect(page.get_by_role("dialog")).to_contain_text("window.hacked=1")
    assert page.evaluate(IS_SAFE) == []
