"""Opening a log: its location, its file permissions, and the refused cases."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.log.helpers import in_child, record, rows

from millstream.errors import CorruptLogError, LogError, LogFormatError
from millstream.log import Log, open_log


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_readable_by_the_user_only(directory: Path) -> None:
    before = os.umask(0)
    try:
        with open_log(directory) as log:
            log.create_topic("t")
            assert mode(directory) == 0o700
            names = {path.name: mode(path) for path in directory.iterdir()}
    finally:
        os.umask(before)
    assert names == {"log.db": 0o600, "log.db-wal": 0o600, "log.db-shm": 0o600, "log.db-commit": 0o600}


def test_the_default_directory_is_that_of_the_environment_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "named" / "deep"))
    open_log().close()
    assert (tmp_path / "named" / "deep" / "log.db").exists()
    monkeypatch.delenv("MILLSTREAM_DATA")
    open_log().close()
    assert (tmp_path / ".millstream" / "log.db").exists()
    open_log("given").close()
    assert (tmp_path / "given" / "log.db").exists()


def test_an_open_log_does_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_log("data") as log:
        log.create_topic("t")
        monkeypatch.chdir("/")
        assert log.ends(["t"]) == {"t": [0]}


def test_paths_with_special_characters_of_uris_work(tmp_path: Path) -> None:
    directory = tmp_path / "a?mode=memory&b#c%20d"
    with open_log(directory) as log:
        log.create_topic("t")
    assert {path.name for path in directory.iterdir()} == {"log.db", "log.db-commit"}


def test_records_survive_a_reopening(directory: Path) -> None:
    with open_log(directory) as log:
        log.create_topic("t")
        log.produce("t", [record("k", "v")])
    with open_log(directory, create=False) as log:
        assert rows(log, "t") == [(0, "k", "v")]


def test_without_create_nothing_is_created(directory: Path) -> None:
    with pytest.raises(LogError, match="there is no log in"):
        open_log(directory, create=False)
    assert not directory.exists()
    directory.mkdir()
    with pytest.raises(LogError, match="there is no log in"):
        open_log(directory, create=False)
    assert list(directory.iterdir()) == []


def test_a_directory_writable_by_all_users_is_refused(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(LogError, match="it is writable by all users"):
        open_log(directory)
    assert list(directory.iterdir()) == []


def test_a_file_as_data_directory_is_refused(directory: Path) -> None:
    directory.write_text("")
    for create in (True, False):
        with pytest.raises(LogError, match="cannot be the data directory"):
            open_log(directory, create=create)


def test_a_directory_that_cannot_be_written_is_an_error() -> None:
    """Root may write anywhere, so a child changes its user first."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    directory.chmod(0o755)

    def child() -> None:
        if os.getuid() == 0:
            os.setuid(65_534)
        else:
            directory.chmod(0o555)
        with pytest.raises(LogError, match="cannot be created: Permission denied"):
            open_log(directory)
        with pytest.raises(LogError, match="cannot be the data directory: Permission denied"):
            open_log(directory / "below")

    try:
        assert in_child(child) == 0
    finally:
        shutil.rmtree(directory)


def test_a_log_that_cannot_be_written_is_an_error() -> None:
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    with open_log(directory) as log:
        log.create_topic("t")
    directory.chmod(0o755)
    (directory / "log.db").chmod(0o444)

    def child() -> None:
        if os.getuid() == 0:
            os.setuid(65_534)
        else:
            directory.chmod(0o555)
        with pytest.raises(LogError, match="cannot be opened for writing"), open_log(directory) as log:
            log.create_topic("u")

    try:
        assert in_child(child) == 0
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


def test_a_log_of_another_format_version_is_refused(directory: Path) -> None:
    open_log(directory).close()
    with closing(sqlite3.connect(directory / "log.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(LogFormatError, match="has format version 99; this version reads 3"):
        open_log(directory)


def test_the_database_of_another_program_is_refused_and_not_changed(directory: Path) -> None:
    directory.mkdir()
    with closing(sqlite3.connect(directory / "log.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = (directory / "log.db").read_bytes()
    with pytest.raises(LogFormatError, match="is not a log of Millstream"):
        open_log(directory)
    assert (directory / "log.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0", os.urandom(20_000)])
def test_other_files_are_refused_and_not_changed(directory: Path, content: bytes) -> None:
    directory.mkdir()
    (directory / "log.db").write_bytes(content)
    with pytest.raises((LogFormatError, CorruptLogError)):
        open_log(directory)
    assert (directory / "log.db").read_bytes() == content


def test_a_write_lock_of_another_process_is_reported(
    log: Log, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.log.embedded.database.BUSY_TIMEOUT_MS", 1)
    with closing(sqlite3.connect(directory / "log.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with open_log(directory) as impatient:
            assert impatient.topics() == []
            with pytest.raises(LogError, match="is locked by another process"):
                impatient.create_topic("t")
            other.execute("ROLLBACK")
            impatient.create_topic("t")
