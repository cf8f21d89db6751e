"""HTML of applications, streams, tables and stores in notebooks."""

from __future__ import annotations

from typing import Any
from xml.dom import minidom

from millstream import App, TestDriver, tumbling
from millstream.text.html import ROWS, show

HOSTILE = "<script>alert('x')</script>\x1b[31m&"


def html(shown: Any) -> str:
    """The HTML of an object, which must be well formed."""
    text: str = shown._repr_html_()
    minidom.parseString(text)
    return text


def test_an_application_is_shown_as_a_picture() -> None:
    app = App("shop")
    orders = app.stream("orders", value=str)
    prices = app.table("prices", value=str, store="prices")
    orders.join(prices, lambda order, price: order + price, name="priced").group_by_key().count(
        store="counts"
    ).to_stream().to("out")
    picture = app.describe("svg")
    minidom.parseString(picture)
    for name in ("orders", "prices", "counts", "out", "priced"):
        assert f">{name}<" in picture
    assert picture.count("marker-end") >= 7
    assert picture in html(app)
    assert "App(&#x27;shop&#x27;)" in html(app)


def test_a_topology_whose_topics_form_a_cycle_has_a_picture() -> None:
    app = App("loop")
    app.stream("in", value=str).map_values(str.upper).to("in")
    picture = app.describe("svg")
    minidom.parseString(picture)
    assert picture.count("<rect x") == 4


def test_an_application_without_operators_has_a_picture() -> None:
    assert "<svg" in html(App("empty"))


def test_streams_and_tables_show_their_operator_and_line() -> None:
    app = App("shop")
    stream = app.stream("orders", value=str).filter(lambda value: value != "")
    table = app.table("prices", value=str, store="prices")
    assert "orders-filter" in html(stream)
    assert "test_html.py:" in html(stream)
    assert "string" in html(stream)
    assert "prices" in html(table)
    assert "users" in html(app.global_table("users", value=str, store="users"))


def test_groups_show_their_source() -> None:
    app = App("groups")
    grouped = app.stream("in", value=str).group_by_key()
    rows = app.table("prices", value=str).group_by(lambda value: (value, value))
    assert repr(grouped) == "GroupedStream(in-source)"
    assert repr(grouped.windowed_by(tumbling(10))) == "WindowedStream(in-source)"
    assert repr(grouped.cogroup(lambda _value, total: total)) == "CogroupedStream(in-source)"
    assert repr(rows).startswith("GroupedTable(prices-")


def test_a_store_is_shown_as_a_table_of_its_first_rows() -> None:
    app = App("counting")
    stream = app.stream("in", value=str)
    stream.group_by_key().count(store="counts")
    stream.group_by_key().windowed_by(tumbling(10)).count(store="windows")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([(f"k{n:02}", "x") for n in range(ROWS + 5)])
        shown = html(driver.store("counts"))
        assert shown.count("<tr>") == ROWS + 1
        assert "&#x27;k00&#x27;" in shown
        assert f"the first {ROWS} of about {ROWS + 5} rows" in shown
        assert "<th" in html(driver.store("windows"))
        assert ">start<" in html(driver.store("windows"))


def test_contents_of_records_are_escaped() -> None:
    app = App("hostile")
    app.stream("in", value=str).group_by_key().reduce(lambda _old, new: new, store="latest")
    with TestDriver(app) as driver:
        driver.input("in").pipe(HOSTILE, "a" * 10_000 + HOSTILE)
        shown = html(driver.store("latest"))
    assert "<script>" not in shown
    assert "\x1b" not in shown
    assert len(shown) < 2_000


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_failing_repr_is_shown_as_such() -> None:
    assert show(Broken()) == "<Broken: its repr raised ValueError>"
