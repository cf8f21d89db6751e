"""The shell in a terminal: a pseudo terminal types, and reads the screen."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.sql.shell.prompt import is_complete

_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """A shell in a pseudo terminal."""

    def __init__(self, directory: Path) -> None:
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "millstream", "sql", "--data", str(directory)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._rest = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def expect(self, text: str, seconds: float = 45) -> str:
        """Reads until a text appears after everything that was read before; returns what came up to it."""
        deadline = time.monotonic() + seconds
        came, self._rest = self._rest, ""
        while text not in came:
            assert time.monotonic() < deadline, f"no {text!r} in {came!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    came += _ESCAPE.sub(b"", os.read(self._master, 65536)).decode(errors="replace")
                except OSError:  # the other end is closed
                    assert text in came, came
        end = came.index(text) + len(text)
        self._rest = came[end:]
        return came[:end]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    opened.expect("sql>")
    try:
        yield opened
    finally:
        opened.close()


def test_statements_of_several_lines_live_results_and_interrupts(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("CREATE STREAM pageviews (k STRING KEY, page STRING)\r")
    terminal.expect("...>")
    terminal.type("WITH (kafka_topic='pv', value_format='JSON', partitions=1);\r")
    terminal.expect("Stream created")
    terminal.type("SELECT * FROM pageviews EMIT CHANGES;\r")
    terminal.expect("PAGE")
    terminal.interrupt()  # ends the query, not the shell
    terminal.expect("sql>")
    terminal.type("SELECT nope FROM pageviews;\r")
    assert "line 1, column 8" in terminal.expect("   ^")
    terminal.expect("sql>")
    terminal.type("SHOW QUER\t")
    terminal.expect("QUERIES")
    terminal.type("\x03")  # clears the line
    terminal.expect("sql>")
    terminal.type("\x1b[A\r")  # the statement before
    assert "cannot be resolved" in terminal.expect("   ^")
    terminal.expect("sql>")
    terminal.type("\x04")
    assert terminal.process.wait(30) == 0
    assert "SELECT nope" in (tmp_path / "sql-history").read_text()
    assert (tmp_path / "sql-history").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SHOW TABLES", False),
        ("SHOW TABLES;", True),
        ("SHOW TABLES;  ", True),
        ("SELECT ';", False),
        ("SELECT ';' FROM s", False),
        ("SELECT ';' FROM s;", True),
        ("-- note;", True),
        ("SELECT 1 -- note;", False),
        ("EXIT", True),
        ("help;", True),
        ("SELECT ? FROM s;", True),
    ],
)
def test_enter_ends_the_input_after_a_complete_statement(text: str, *, complete: bool) -> None:
    assert is_complete(text) == complete
