"""The views of applications on a cluster: damaged views are rebuilt, and older files are refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.views.harness import key_value, open_

from millstream.errors import CorruptViewError, LogFormatError
from millstream.log.api import Publication, Scope
from millstream.state.spec import ChangelogRecord
from millstream.views.changes import change_of
from millstream.views.reader import ViewDatabase

views = pytest.importorskip("millstream.log.kafka.views")

ROWS = [change_of(key_value(), 0, [ChangelogRecord(b"key %d" % number, b"value", 5) for number in range(50)])]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE view_rows SET value = x'00' WHERE key = CAST('key 7' AS BLOB)",
        "DELETE FROM view_rows WHERE key = CAST('key 7' AS BLOB)",
    ],
)
def test_a_damaged_view_is_dropped_and_rebuilt(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "views.db"
    local = views.LocalViews(path)
    local.apply(Publication(Scope("app"), 1, 4, views=ROWS))
    local.discard_damaged("app")
    assert local.batch("app") == 4
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(damage)
    reader = ViewDatabase(path)
    with pytest.raises(CorruptViewError, match="the view of store 'counts' is damaged"):
        open_(reader, key_value()).get("key 7")
    local.discard_damaged("app")
    assert local.batch("app") is None
    local.rebuild("app", ROWS, 4)
    assert local.batch("app") == 4
    assert open_(ViewDatabase(path), key_value()).get("key 7") == "value"
    reader.close()
    local.close()


def test_a_damaged_batch_number_counts_as_none(tmp_path: Path) -> None:
    local = views.LocalViews(tmp_path / "views.db")
    local.apply(Publication(Scope("app"), 1, 4, views=ROWS))
    with closing(sqlite3.connect(tmp_path / "views.db", isolation_level=None)) as connection:
        connection.execute("UPDATE view_batches SET batch = 5")
    assert local.batch("app") is None
    local.close()


def test_a_file_of_an_older_format_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "views.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE view_rows (store INTEGER)")
    with pytest.raises(LogFormatError, match="has format version 0; this version reads 3") as refused:
        views.LocalViews(tmp_path / "views.db").batch("app")
    assert "delete it" in (refused.value.hint or "")
