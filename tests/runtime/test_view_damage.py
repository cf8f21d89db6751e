"""Damaged views: readers get an error, and the next start rebuilds the view from its changelog."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run_in

from millstream import App, Materialized, session, tumbling
from millstream.errors import CorruptLogError, CorruptViewError, MillstreamError, StateError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.state.spec import ChangelogRecord
from millstream.views.changes import ViewChange
from millstream.views.integrity import begin_rebuild, end_rebuild, find_damaged
from millstream.views.tables import apply_changes

PAGE = 8192


def topology(directory: Path) -> App:
    app = App("app", config={"state.dir": str(directory)})
    stream = app.stream("in", value=str)
    grouped = stream.group_by_key()
    grouped.count(store="counts")
    grouped.count(store=Materialized("unlogged", logging=False))
    grouped.windowed_by(tumbling(10, grace=10_000)).count(store="windows")
    grouped.windowed_by(session(2, grace=10_000)).count(store="sessions")
    stream.to_table(store=Materialized("versions", history=10_000))
    return app


def produce(directory: Path, count: int = 300) -> None:
    with open_log(directory) as log:
        log.create_topic("in", exist_ok=True)
        records = [ProducerRecord(b"key %d" % (n % 60), b"value %d" % n, n * 3) for n in range(count)]
        log.produce("in", records)


def answers(app: App) -> dict[str, Any]:
    keys = [f"key {number}" for number in (0, 7, 59, 60)]
    counts, windows, sessions, versions = map(app.store, ("counts", "windows", "sessions", "versions"))
    return {
        "counts": [[counts.get(key) for key in keys], list(counts.all())],
        "windows": [[windows.fetch(key, 0, 1_000) for key in keys], list(windows.all())],
        "sessions": [[sessions.fetch(key) for key in keys], sessions.fetch_range(None, None)],
        "versions": [[versions.get(key) for key in keys], [versions.get(key, as_of=300) for key in keys]],
    }


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("views") / "data"
    produce(directory)
    app = topology(directory)
    with InProcessRun(app) as run:
        run.run()
    return directory, answers(app)


@pytest.fixture
def directory(original: tuple[Path, Any], tmp_path: Path) -> Path:
    shutil.copytree(original[0], tmp_path / "data")
    return tmp_path / "data"


@contextmanager
def behind_its_back(directory: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes the file without updating checksums and counts, as damage does."""
    with closing(sqlite3.connect(directory / "log.db", isolation_level=None)) as connection:
        yield connection


KEY_7 = "key = CAST('key 7' AS BLOB)"

# The store, the table, the change, and the rows that are changed.
DAMAGES = {
    "a value": ("counts", "view_rows", "SET value = x'0000000000000009'", KEY_7),
    "a timestamp": ("counts", "view_rows", "SET timestamp = 1", KEY_7),
    "a key": ("counts", "view_rows", "SET key = x'ff'", KEY_7),
    "a row": ("counts", "view_rows", "", KEY_7),
    "a value of another type": ("counts", "view_rows", "SET value = 'text'", KEY_7),
    "a window": ("windows", "view_windows", "", "time = 30"),
    "a bucket of windows": ("windows", "view_windows", "SET bucket = bucket + 1", "time = 30"),
    "the time of windows": ("windows", "view_times", "SET time = 100", "true"),
    "the time of sessions": ("sessions", "view_times", "", "true"),
    "a start of a session": ("sessions", "view_windows", "SET rank = rank - 1", "time = 21"),
    "an end of a version": ("versions", "view_versions", "SET until = until + 1", "until = 201"),
    "a version": ("versions", "view_versions", "", "timestamp = 21"),
    "the count of versions": ("versions", "view_counts", "SET rows = rows + 1", "true"),
}


def damage_view(connection: sqlite3.Connection, damage: str) -> str:
    """Changes or deletes rows of a view, and returns the name of its store."""
    store, table, change, rows = DAMAGES[damage]
    verb = f"UPDATE {table} {change}" if change else f"DELETE FROM {table}"
    of_store = f"store = (SELECT id FROM view_stores WHERE name = '{store}')"
    assert connection.execute(f"{verb} WHERE {of_store} AND {rows}").rowcount > 0
    return store


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_view_is_an_error_and_rebuilt_at_the_start(
    damage: str, directory: Path, original: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with behind_its_back(directory) as connection:
        store = damage_view(connection, damage)
    app = topology(directory)
    with pytest.raises(CorruptViewError, match=f"of store '{store}' is damaged") as raised:
        answers(app)
    assert "start its application again" in (raised.value.hint or "")
    with InProcessRun(app):
        pass
    assert f"damaged views of application 'app' are made anew from changelogs: {store}" in capsys.readouterr().err
    assert answers(app) == original[1]
    produce(directory, 30)
    with InProcessRun(app) as run:
        run.run()
    assert app.store("counts").get("key 7") == original[1]["counts"][0][1] + 1


def test_large_views_are_checked_on_demand(directory: Path) -> None:
    with behind_its_back(directory) as connection:
        damage_view(connection, "a key")
        connection.execute("BEGIN")
        assert [view.store.name for view in find_damaged(connection, "app")] == ["counts"]
        assert find_damaged(connection, "app", most=10) == []  # it has 60 rows
        connection.execute("ROLLBACK")
    checked = run_in(directory)("stores", "check", "app")
    assert (checked.code, checked.out) == (1, "")
    assert checked.err.startswith("error: damaged views of application app: counts\nhint: start the application")
    with behind_its_back(directory) as connection:
        connection.execute("BEGIN")
        assert [view.store.name for view in find_damaged(connection, "app", most=10)] == ["counts"]
        connection.execute("ROLLBACK")
    with InProcessRun(topology(directory)):
        pass
    checked = run_in(directory)("stores", "check", "app")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out == "app: no view is damaged (counts, sessions, unlogged, versions, windows)\n"


def test_a_damaged_view_without_a_changelog_begins_empty(
    directory: Path, capsys: pytest.CaptureFixture[str], original: tuple[Path, dict[str, Any]]
) -> None:
    with behind_its_back(directory) as connection:
        connection.execute("DELETE FROM view_rows WHERE store = (SELECT id FROM view_stores WHERE name = 'unlogged')")
    app = topology(directory)
    with pytest.raises(CorruptViewError, match="the view of store 'unlogged' is damaged"):
        list(app.store("unlogged").all())
    with InProcessRun(app):
        pass
    assert "without a whole changelog begin empty, rows come as they change: unlogged" in capsys.readouterr().err
    assert list(app.store("unlogged").all()) == []
    assert answers(app) == original[1]


def test_the_list_of_stores_is_checked(directory: Path) -> None:
    for statement in (
        "DELETE FROM view_stores WHERE name = 'counts'",
        "UPDATE view_stores SET name = 'county' WHERE name = 'counts'",
    ):
        with behind_its_back(directory) as connection:
            connection.execute("BEGIN")
            connection.execute(statement)
            connection.execute("COMMIT")
        with pytest.raises(CorruptViewError, match="is damaged"):
            topology(directory).store("counts")


def test_the_command_line_names_damaged_views_and_the_remedy(directory: Path) -> None:
    with behind_its_back(directory) as connection:
        damage_view(connection, "a value")
    run = run_in(directory)
    right, wrong = run("stores", "get", "app", "counts", "key 9"), run("stores", "get", "app", "counts", "key 7")
    assert (right.code, wrong.code) == (0, 1)
    assert "a row of the view of store 'counts' is damaged" in wrong.err
    assert "start its application again" in wrong.err
    assert run("stores", "scan", "app", "counts").code == 1


def test_a_view_whose_rebuild_was_interrupted_is_rebuilt(directory: Path) -> None:
    with behind_its_back(directory) as connection:
        damage_view(connection, "a row")
        assert begin_rebuild(connection, find_damaged(connection, "app")) == ["counts"]
        row = ChangelogRecord(b"key 7", (3).to_bytes(8, "big"), 5)
        apply_changes(connection, "app", [ViewChange("counts", "key-value", 0, [row])])
        with pytest.raises(CorruptViewError):
            topology(directory).store("counts").get("key 9")
        end_rebuild(connection, "app", ["counts"])
    assert list(topology(directory).store("counts").all()) == [("key 7", 3)]


def test_pages_of_zeros_give_correct_rows_or_errors_also_after_a_start(
    original: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page that SQLite cannot read destroys the rows of a view; the view is rebuilt nevertheless."""
    content = (original[0] / "log.db").read_bytes()
    directory = tmp_path / "data"
    mended = 0
    for start in range(PAGE, len(content), PAGE):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(original[0], directory)
        (directory / "log.db").write_bytes(content[:start] + bytes(PAGE) + content[start + PAGE :])
        app = topology(directory)
        try:
            assert answers(app) == original[1]
            continue
        except (StateError, CorruptLogError):
            pass
        try:
            with InProcessRun(app):
                pass
            assert answers(app) == original[1]
            mended += "are made anew" in capsys.readouterr().err
        except MillstreamError:
            continue
    assert mended >= 2
