"""Finds the mistakes of a text without executing it, each with its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from millstream.errors import MillstreamError, SqlError
from millstream.sql.requests.changes import Changes
from millstream.sql.requests.explain import statement_topology
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession
from millstream.sql.syntax import parse_script, tree
from millstream.sql.syntax.tokens import Kind, tokens


class Mistake(NamedTuple):
    """A mistake in a text.

    Attributes:
        message: The problem.
        line: The line of its place, from 1.
        column: The column, from 1.
        length: The length of the word at the place.
        hint: The remedy.
    """

    message: str
    line: int
    column: int
    length: int
    hint: str | None


def mistakes(text: str, handler: RequestHandler, request: RequestSession) -> list[Mistake]:
    """Returns the mistake of the syntax, or else the first mistake of each statement.

    Each statement is checked against what those before it will have changed.
    """
    request = request.copy()
    try:
        statements = parse_script(text, request.variables)
    except SqlError as error:
        return [_mistake(error, (1, 1), text)]
    catalog = handler.session.catalog.copy()
    problems: list[Mistake] = []
    for statement in statements:
        properties = {**handler.session.properties, **request.properties}
        session = handler.session.with_properties(properties, catalog)
        changes = Changes(session, handler.deployment, handler.registry, check_only=True)
        try:
            _check(statement, changes, request)
        except MillstreamError as error:
            problems.append(_mistake(error, statement.at, text))
    return problems


def _check(statement: tree.Statement, changes: Changes, request: RequestSession) -> None:
    match statement:
        case tree.SetProperty():
            request.set(statement.name, statement.value)
        case tree.UnsetProperty():
            request.unset(statement.name)
        case tree.InsertValues():
            changes.insert(statement)
        case tree.Terminate():
            changes.control(statement)
        case tree.Select():
            statement_topology(statement, changes.session)
        case tree.Explain() if statement.statement is not None:
            statement_topology(statement.statement, changes.session)
        case (
            tree.CreateSource()
            | tree.CreateAs()
            | tree.InsertInto()
            | tree.AlterSource()
            | tree.DropSource()
            | tree.CreateType()
            | tree.DropType()
        ):
            changes.define(statement)


def _mistake(error: MillstreamError, at: Sequence[int], text: str) -> Mistake:
    line, column = at
    if isinstance(error, SqlError) and error.line is not None and error.column is not None:
        line, column = error.line, error.column
    return Mistake(error.message, line, column, _length(text, line, column), error.hint)


def _length(text: str, line: int, column: int) -> int:
    """Returns the length of the word at a place; 1 if there is none."""
    try:
        for token in tokens(text):
            if token.at == (line, column) and token.kind is not Kind.END:
                return max(1, len(token.text.split("\n")[0]))
    except SqlError:  # the text has a character that begins no word
        pass
    return 1
