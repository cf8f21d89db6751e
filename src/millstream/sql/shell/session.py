"""Carries out the statements of a shell, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from millstream.errors import MillstreamError, SqlError, SqlStatementError
from millstream.sql.requests.errors import RequestError
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession
from millstream.sql.shell.rendering import Renderer
from millstream.sql.syntax import parse_statement, split_statements, tree

T = TypeVar("T")

_POLL = 0.1
_MOST_SCRIPTS = 20

Progress = Callable[[str], AbstractContextManager[object]]
"""Shows that a statement takes long, for as long as the block takes."""


def no_progress(_text: str) -> AbstractContextManager[object]:
    """Shows nothing."""
    return nullcontext()


class ShellSession:
    """Carries out statements.

    Args:
        handler: Carries out single statements.
        renderer: Writes the results.
        progress: Shows that a statement takes long.

    Attributes:
        interrupted: Set to end the statement in progress. The next statement clears it.
        request: What SET and DEFINE have changed.
    """

    def __init__(self, handler: RequestHandler, renderer: Renderer, progress: Progress = no_progress) -> None:
        self.handler = handler
        self.renderer = renderer
        self.interrupted = threading.Event()
        self.request = RequestSession()
        self._progress = progress
        self._scripts = 0

    def run(self, text: str, folder: Path | None = None) -> bool:
        """Carries out the statements of a text, up to the first one that fails; returns whether all succeeded.

        Args:
            text: The statements.
            folder: The folder of the script; RUN SCRIPT finds its file there.
        """
        try:
            for piece, at in list(split_statements(text)):
                statement = parse_statement(piece, self.request.variables, at=at, test_statements=True)
                self._run(statement, folder or Path())
        except SqlError as error:
            self.renderer.error(error.mark(text))
            return False
        except MillstreamError as error:
            self.renderer.error(error)
            return False
        return True

    def _run(self, statement: tree.Statement, folder: Path) -> None:
        self.interrupted.clear()
        try:
            match statement:
                case tree.Select():
                    self._select(statement)
                case tree.Print():
                    self._print(statement)
                case tree.RunScript():
                    self._script(statement, folder)
                case _:
                    with self._progress(_title(statement)):
                        entities = self.handler.statements(statement.text, self.request)
                    for entity in entities:
                        self.renderer.entity(entity)
        except RequestError as error:
            raise _placed(error, statement) from error

    def _select(self, statement: tree.Select) -> None:
        with self._progress("query"):
            answer = self.handler.query(statement.text, self.request)
        try:
            write = self.renderer.live(answer)
            for rows in self._batches(lambda: answer.poll(_POLL), lambda: answer.finished):
                write(rows)
        finally:
            answer.close()
        if answer.final_message is not None and self.renderer.output == "table":
            self.renderer.note(answer.final_message)

    def _print(self, statement: tree.Print) -> None:
        topic = self.handler.print_topic(statement.text, self.request)
        try:
            for lines in self._batches(lambda: topic.poll(_POLL), lambda: topic.finished):
                self.renderer.text("\n".join(lines))
        finally:
            topic.close()

    def _batches(self, poll: Callable[[], T], is_finished: Callable[[], bool]) -> Iterator[T]:
        """Yields what a query returns, until it ends or is interrupted."""
        while not self.interrupted.is_set():
            batch = poll()
            if batch:
                yield batch
            elif is_finished():
                return

    def _script(self, statement: tree.RunScript, folder: Path) -> None:
        path = folder / statement.path
        if self._scripts >= _MOST_SCRIPTS:
            raise SqlStatementError(f"more than {_MOST_SCRIPTS} scripts run each other", at=statement.at)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise SqlStatementError(f"cannot read the script {path}: {error}", at=statement.at) from error
        self._scripts += 1
        try:
            if not self.run(text, path.parent):
                raise SqlStatementError(f"the script {path} has failed", at=statement.at)
        finally:
            self._scripts -= 1


def _title(statement: tree.Statement) -> str:
    return " ".join(statement.text.split()[:3]).rstrip(";").lower()


def _placed(error: RequestError, statement: tree.Statement) -> SqlError:
    """Returns the error of a request with its place in the text that the statement comes from."""
    cause = error.__cause__
    if isinstance(cause, SqlError) and cause.line is not None and cause.column is not None:
        line, column = cause.line, cause.column
        # The handler has parsed the text of the statement alone.
        first = statement.at
        place = (first[0] + line - 1, column + (first[1] - 1 if line == 1 else 0))
        return SqlStatementError(cause.message, hint=cause.hint, at=place)
    return SqlStatementError(error.message, hint=error.hint, at=statement.at)
