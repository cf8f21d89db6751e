"""The prompt of the shell: editing, history and completion."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import has_completions
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from millstream.errors import SqlError
from millstream.sql.live.server import SqlServer
from millstream.sql.shell.completion import SqlCompleter
from millstream.sql.shell.session import ShellSession
from millstream.sql.syntax import split_statements

HELP = """\
Statements end with a semicolon, and may have several lines.
  SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW TOPICS; SHOW FUNCTIONS; SHOW PROPERTIES;
  DESCRIBE name;  DESCRIBE FUNCTION name;  EXPLAIN query;  PRINT 'topic' FROM BEGINNING;
  SET 'auto.offset.reset' = 'earliest';    queries read their streams from the beginning
  SELECT … EMIT CHANGES;                   rows as they come, until Ctrl-C
  RUN SCRIPT 'file';  help;  exit;
Tab completes, arrow keys recall earlier statements, Ctrl-C ends a query, Ctrl-D leaves the shell.
The queries of CREATE … AS and INSERT INTO … SELECT run while this shell runs, and continue at its next start."""

_LEAVE = {"exit", "quit"}
_SHOW_AFTER = 0.4
"""Seconds after which a statement in progress is shown."""


def is_complete(text: str) -> bool:
    """Whether Enter ends the input: a statement is complete, or it is a word of the shell.

    >>> is_complete("SELECT 1"), is_complete("SELECT ';"), is_complete("SHOW TABLES;"), is_complete("exit")
    (False, False, True, True)
    """
    stripped = text.strip()
    if not stripped or stripped.lower().rstrip(";") in {*_LEAVE, "help"}:
        return True
    if not stripped.endswith(";"):
        return False
    try:
        *_, (last, _place) = split_statements(stripped)
    except SqlError as error:
        return "has no end" not in error.message
    except ValueError:
        return True  # only a comment
    return last.endswith(";")


class Prompt:
    """Reads statements from a terminal, and carries them out.

    Args:
        server: The server.
        session: Carries out the statements.
        history: The file of the history.
    """

    def __init__(self, server: SqlServer, session: ShellSession, history: Path) -> None:
        self._server = server
        self._session = session
        history.touch(mode=0o600, exist_ok=True)
        completer = SqlCompleter(
            server.session, lambda: (topic.name for topic in server.deployment.topics() if "-" not in topic.name)
        )
        self._prompt: PromptSession[str] = PromptSession(
            "sql> ",
            multiline=True,
            prompt_continuation="...> ",
            completer=completer,
            complete_while_typing=False,
            history=FileHistory(str(history)),
            key_bindings=_keys(),
            bottom_toolbar=self._toolbar,
            enable_open_in_editor=False,
        )

    def run(self) -> None:
        """Reads and carries out statements until the end of the input."""
        while True:
            try:
                with patch_stdout(raw=True):
                    text = self._prompt.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            word = text.strip().lower().rstrip(";")
            if word in _LEAVE:
                return
            if word == "help":
                self._session.renderer.text(HELP)
            elif word:
                with interrupting(self._session.interrupted):
                    self._session.run(text)

    def _toolbar(self) -> str:
        catalog, deployment = self._server.session.catalog, self._server.deployment
        states = [deployment.state(query) for query in list(catalog.queries.values())]
        counts = {state: states.count(state) for state in ("RUNNING", "PAUSED", "ERROR")}
        parts = [f"{count} {state.lower()}" for state, count in counts.items() if count]
        return f" queries: {', '.join(parts) or 'none'} │ help; exit; Tab completes "


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~has_completions)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys


@contextmanager
def interrupting(interrupted: threading.Event) -> Iterator[None]:
    """Has Ctrl-C set an event in the block: it ends a query, and no other work halfway."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        interrupted.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Shows that a statement is in progress, if it takes a while."""
    status = Console(file=sys.stderr).status(f"{text} …")
    timer = threading.Timer(_SHOW_AFTER, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        status.stop()


def run_prompt(server: SqlServer, session: ShellSession, directory: Path) -> None:
    """Runs a prompt; its history is in the directory."""
    session.renderer.text(f"Millstream SQL, data in {os.fspath(directory)}. help; explains the shell, exit; leaves it.")
    Prompt(server, session, directory / "sql-history").run()
