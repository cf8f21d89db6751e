"""The parser's functions: from text to syntax trees.

Limits: a text of 4 million characters, 150 levels of nesting, and 10,000 columns, fields or select items. Whatever the
text is, the only error is `SqlError`, and nearly always `SqlSyntaxError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from millstream.errors import SqlError
from millstream.sql.syntax.statements import StatementParser
from millstream.sql.syntax.tokens import START, Kind, tokens
from millstream.sql.syntax.tree import Element, Expression, Position, Statement, TypeRef

T = TypeVar("T")


def parse_script(
    text: str, variables: Mapping[str, str] | None = None, *, test_statements: bool = False
) -> list[Statement]:
    """Parses all statements of a script; each ends with a semicolon.

    ``variables`` are those that the script may use; DEFINE and UNDEFINE change them for the statements that follow.
    ``test_statements`` admits RUN SCRIPT and the ASSERT statements that only the test tool knows.

    >>> [type(statement).__name__ for statement in parse_script("SHOW STREAMS; SELECT * FROM s EMIT CHANGES;")]
    ['Show', 'Select']
    """
    try:
        parser = StatementParser(text, variables)
        parser.test_statements = test_statements
        return list(parser.statements())
    except SqlError as error:
        error.mark(text)
        raise


def parse_statement(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    at: Position = START,
    test_statements: bool = False,
) -> Statement:
    """Parses one statement, with its semicolon. ``at`` is its place in the script that it comes from."""
    try:
        parser = StatementParser(text, variables, at)
        parser.test_statements = test_statements
        statement = parser.statement()
        _end(parser)
    except SqlError as error:
        if at == START:
            error.mark(text)
        raise
    return statement


def split_statements(text: str) -> Iterator[tuple[str, Position]]:
    r"""Yields the text of each statement of a script, with its semicolon, and its place.

    A session that runs a script statement by statement replaces variables by what the statements before have defined.
    Text after the last semicolon is yielded as well: only the parser can say what is missing.

    >>> [statement for statement, _place in split_statements("SHOW TABLES; -- all;\nSELECT ';' FROM s;")]
    ['SHOW TABLES;', "SELECT ';' FROM s;"]
    """
    first = None
    end = 0
    for token in tokens(text):
        if token.kind is Kind.END:
            break
        first = first or token
        end = token.start + len(token.text)
        if token.word == ";":
            yield text[first.start : end], first.at
            first = None
    if first is not None:
        yield text[first.start : end], first.at


def parse_expression(text: str) -> Expression:
    """Parses an expression."""
    return _whole(text, StatementParser.whole_expression)


def parse_columns(text: str) -> tuple[Element, ...]:
    """Parses columns as in CREATE, without the parentheses. An empty text has no columns."""
    return _whole(text, StatementParser.columns) if text.strip() else ()


def parse_type(text: str) -> TypeRef:
    """Parses a type."""
    return _whole(text, StatementParser.type)


def _whole(text: str, take: Callable[[StatementParser], T]) -> T:
    try:
        parser = StatementParser(text)
        result = take(parser)
        _end(parser)
    except SqlError as error:
        error.mark(text)
        raise
    return result


def _end(parser: StatementParser) -> None:
    if parser.next.kind is not Kind.END:
        parser.fail((), "the end of the text")
