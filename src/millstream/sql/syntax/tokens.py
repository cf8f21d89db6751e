"""The lexer: from text to tokens with their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from millstream.errors import SqlSyntaxError
from millstream.sql.syntax.tree import Position

START = Position(1, 1)
"""The place of the first character of a script."""

MAX_LENGTH = 4_000_000
"""The longest text that is read, in characters."""


class Kind(IntEnum):
    """The kinds of tokens."""

    WORD = 1
    DIGIT_WORD = 2
    QUOTED = 3
    STRING = 4
    INTEGER = 5
    DECIMAL = 6
    DOUBLE = 7
    VARIABLE = 8
    OPERATOR = 9
    END = 10


class Token(NamedTuple):
    """A token.

    ``word`` is a word in upper case or an operator, and empty for all other tokens: a comparison with a keyword never
    takes a quoted identifier or a string for that keyword.
    """

    kind: Kind
    text: str
    word: str
    at: Position
    start: int

    def __str__(self) -> str:
        if self.kind is Kind.END:
            return "the end of the text"
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        return text if self.kind in {Kind.STRING, Kind.QUOTED} else f"'{text}'"


_SHOWN = 60

# The order is that of the rules: the longest token wins, so a number that goes on with letters is an identifier.
_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]+ | --[^\r\n]* | /\*.*?\*/)
    | (?P<word>[A-Za-z_][A-Za-z0-9_@]*)
    | (?P<double>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[Ee][+-]?[0-9]+)(?![A-Za-z0-9_@])
    | (?P<exponent>[0-9]+\.[0-9]*[Ee][+-]?[0-9]+ | \.[0-9]+[Ee][+-]?[0-9]+)
    | (?P<decimal>[0-9]+\.[0-9]* | \.[0-9]+)
    | (?P<integer>[0-9]+)(?![A-Za-z0-9_@])
    | (?P<digits>[0-9][A-Za-z0-9_@]+)
    | (?P<string>'[^']*(?:''[^']*)*')
    | (?P<quoted>`[^`]*(?:``[^`]*)*` | "[^"]*(?:""[^"]*)*")
    | (?P<variable>\$\{[A-Za-z_][A-Za-z0-9_@]*\})
    | (?P<operator><> | != | <= | >= | => | -> | := | \|\| | [-=<>+*/%()\[\],.;])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "word": Kind.WORD,
    "double": Kind.DOUBLE,
    "exponent": Kind.DOUBLE,
    "decimal": Kind.DECIMAL,
    "integer": Kind.INTEGER,
    "digits": Kind.DIGIT_WORD,
    "string": Kind.STRING,
    "quoted": Kind.QUOTED,
    "variable": Kind.VARIABLE,
    "operator": Kind.OPERATOR,
}
_WORDS = {Kind.WORD, Kind.OPERATOR}


def tokens(text: str, at: Position = START) -> Iterator[Token]:
    """Yields the tokens of a text and an END token; ``at`` is the place of its first character in the script."""
    if len(text) > MAX_LENGTH:
        raise SqlSyntaxError(f"the text has {len(text)} characters; at most {MAX_LENGTH} are read", at=at)
    line, line_start = at.line, 1 - at.column
    offset, end = 0, len(text)
    scan = _TOKEN.match
    while offset < end:
        found = scan(text, offset)
        if found is None:
            raise _unknown(text, offset, Position(line, offset - line_start + 1))
        group, start, offset = found.lastgroup, offset, found.end()
        piece = found[0]
        if group != "space":
            assert group is not None
            kind = _KINDS[group]
            word = piece.upper() if kind in _WORDS else ""
            yield Token(kind, piece, word, Position(line, start - line_start + 1), start)
        if "\n" in piece:
            line += piece.count("\n")
            line_start = start + piece.rindex("\n") + 1
    yield Token(Kind.END, "", "", Position(line, end - line_start + 1), end)


def _unknown(text: str, offset: int, at: Position) -> SqlSyntaxError:
    match text[offset]:
        case "'":
            return SqlSyntaxError("this string has no end", at=at, hint="strings end with ', and '' is a quote in them")
        case ("`" | '"') as quote:
            return SqlSyntaxError("this quoted identifier has no end", at=at, hint=f"it ends with {quote}")
        case "/" if text.startswith("/*", offset):
            return SqlSyntaxError("this comment has no end", at=at, hint="it ends with */")
        case "$":
            return SqlSyntaxError("unexpected character '$'", at=at, hint="a variable is written ${name}")
        case character:
            return SqlSyntaxError(f"unexpected character {character!r}", at=at)


def unquoted(text: str) -> str:
    """Returns the contents of a string or a quoted identifier.

    >>> unquoted("'it''s'"), unquoted('"a""b"')
    ("it's", 'a"b')
    """
    quote = text[0]
    return text[1:-1].replace(quote + quote, quote)
