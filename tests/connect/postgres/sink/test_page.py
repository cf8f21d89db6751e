"""The program of the page about the sink, with a real server."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.connect.postgres.sink.sinks import query, url_of

from millstream import App
from millstream.connect.postgres.client import Server
from millstream.log import ProducerRecord, open_log

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "write-to-postgresql.md"


def load(directory: Path) -> App:
    """The application of the page."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert found is not None
    module = ModuleType("report")
    exec(compile(found[1], str(directory / "report.py"), "exec"), vars(module))
    app: App = vars(module)["app"]
    return app


def test_the_program_of_the_page_keeps_a_table(
    database: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPORTS_URL", url_of(database))
    monkeypatch.setenv("REPORTS_PASSWORD", "unused")
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(sys.modules, "report", ModuleType("report"))
    for batch in (["ann", "bob", "ann"], ["bob", "bob"]):
        with open_log(tmp_path / "data") as log:
            if "orders" not in {topic.name for topic in log.topics()}:
                log.create_topic("orders")
            log.produce("orders", [ProducerRecord(name.encode(), b"{}") for name in batch])
        load(tmp_path).run(until_caught_up=True)
    assert query(database, "SELECT customer, orders FROM customers ORDER BY customer") == [("ann", 2), ("bob", 3)]
