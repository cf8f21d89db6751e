"""`stores` and `groups` of an application that has run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from millstream import App
from millstream.errors import UnknownStoreError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun


def test_the_stores_of_an_application_are_listed(shop: Run) -> None:
    stores = {store["store"]: store for store in shop("stores", "list", "shop", "-o", "json").lines}
    assert {name: store["kind"] for name, store in stores.items()} == {
        "by-number": "key-value",
        "history": "versioned",
        "minutes": "window",
        "orders-of-shop": "key-value",
        "visits": "session",
    }
    assert (stores["by-number"]["key"], stores["history"]["retention"]) == ("long", 3_600_000)
    assert shop("stores", "list", "shop").out.splitlines()[0].split()[:3] == ["STORE", "KIND", "KEY"]


def test_a_key_is_looked_up_by_its_type(shop: Run) -> None:
    assert shop("stores", "get", "shop", "orders-of-shop", "north", "-o", "json").lines == [
        {"key": "north", "value": 3, "timestamp": 70_000}
    ]
    assert shop("stores", "get", "shop", "by-number", "7", "-o", "json").lines == [
        {"key": 7, "value": 1, "timestamp": 1_000}
    ]
    assert shop("stores", "get", "shop", "minutes", "north", "-o", "json").lines == [
        {"key": "north", "start": 60_000, "end": 120_000, "value": 1, "timestamp": 70_000}
    ]
    assert shop("stores", "get", "shop", "visits", "north", "-o", "json").lines == [
        {"key": "north", "start": 70_000, "end": 70_000, "value": 1}
    ]
    assert shop("stores", "get", "shop", "history", "tea", "--as-of", "1500", "-o", "json").lines == [
        {"key": "tea", "value": 3, "timestamp": 1_000, "valid_to": 2_000}
    ]
    lines = shop("stores", "get", "shop", "history", "tea").out.splitlines()
    assert lines[1].split() == ["tea", "4", "1970-01-01T00:00:02Z"]


def test_rows_are_listed_by_key_and_time(shop: Run) -> None:
    def keys(*options: str) -> list[str]:
        return [row["key"] for row in shop("stores", "scan", "shop", *options, "-o", "json").lines]

    assert keys("orders-of-shop") == ["north", "south"]
    assert keys("orders-of-shop", "--from", "o") == ["south"]
    assert keys("orders-of-shop", "--to", "o") == ["north"]
    assert keys("orders-of-shop", "--limit", "1") == ["north"]
    assert keys("minutes", "--time-to", "59999") == ["south"]
    assert keys("minutes", "--time-from", "1970-01-01T00:01:00Z") == ["north"]
    assert keys("visits", "--from", "north", "--to", "north") == ["north"]
    assert "there are more rows" in shop("stores", "scan", "shop", "orders-of-shop", "--limit", "1").err


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["list", "shp"], 1, "there is no application 'shp' here", "did you mean 'shop'?"),
        (["get", "shop", "minuts", "x"], 1, "application 'shop' has no store 'minuts'", "did you mean 'minutes'?"),
        (["get", "shop", "by-number", "x"], 2, "KEY: 'x' is not a long", ""),
        (["get", "shop", "by-number", "8"], 1, "store 'by-number' of application 'shop' has no row for '8'", ""),
        (["get", "shop", "minutes", "north", "--as-of", "5"], 2, "--as-of: store 'minutes' is a window store", ""),
        (
            ["get", "shop", "by-number", "7", "--time-from", "5"],
            2,
            "--time-from, --time-to: store 'by-number' is a",
            "",
        ),
        (["scan", "shop", "orders-of-shop", "--time-to", "5"], 2, "--time-from, --time-to: store 'orders-of-shop'", ""),
        (["scan", "shop", "minutes", "--limit", "9" * 30], 2, "Invalid value for '--limit' / '-n'", "--help"),
        (["scan", "shop", "history"], 1, "store 'history' is versioned", "use stores get"),
        (["scan", "shop", "minutes", "--limit", "0"], 2, "Invalid value for '--limit' / '-n'", "--help"),
    ],
)
def test_invalid_queries_are_refused(shop: Run, arguments: list[str], code: int, message: str, hint: str) -> None:
    result = shop("stores", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"error: {message}")
    assert hint in result.err


def test_the_progress_of_an_application_is_that_of_its_group(shop: Run) -> None:
    assert shop("groups", "list", "-o", "json").lines == [
        {"group": "shop", "type": "application", "topics": ["numbers", "orders", "prices"], "lag": 0}
    ]
    table = shop("groups", "describe", "shop").out.splitlines()
    assert table[0] == "application shop, last batch 0"
    assert [line.split() for line in table[4:6]] == [["orders", "0", "4", "4", "0"], ["orders", "1", "-", "0", "0"]]


def test_an_unknown_group_is_an_error(shop: Run) -> None:
    assert shop("groups", "describe", "shp") == (1, "", "error: there is no group 'shp'\nhint: did you mean 'shop'?\n")


def test_a_store_without_a_batch_is_reported_as_such(millstream: Run, data: Path) -> None:
    app = App("new", config={"state.dir": str(data)})
    app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    app.table("other", key=str, value=str, store="rows")
    app.table("third", key=str, value=str).filter(lambda value: True)
    with open_log(data) as log:
        for topic in ("in", "other", "third"):
            log.create_topic(topic)
    with pytest.raises(UnknownStoreError, match="store 'counts' of application 'new' has no rows yet: no batch "):
        app.store("counts")
    message = (
        "error: store '{}' of application 'new' has no rows yet: no batch has written to it\n"
        "hint: run the application; while it runs, try again in a moment\n"
    )
    with InProcessRun(app) as run:
        assert millstream("stores", "get", "new", "counts", "k") == (1, "", message.format("counts"))
        assert millstream("stores", "scan", "new", "rows") == (1, "", message.format("rows"))
        listed = millstream("stores", "list", "new")
        assert [line.split()[0] for line in listed.out.splitlines()[1:]] == ["counts", "rows"]
        assert listed.err == "no batch has written to these stores yet: counts, rows\n"
        assert millstream("stores", "get", "new", "third", "k").err.startswith("error: application 'new' has no store")
        run.log.produce("in", [ProducerRecord(b"k", b"v", 5)])
        run.run()
        assert millstream("stores", "get", "new", "counts", "k").code == 0
        assert millstream("stores", "get", "new", "counts", "l").err.endswith("has no row for 'l'\n")
        assert millstream("stores", "scan", "new", "rows") == (0, "", "store rows has no matching rows\n")
        assert millstream("stores", "list", "new").err == ""
