"""The place of a parser in its tokens, and the errors that it reports there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import NoReturn, TypeVar

from millstream.errors import SqlSyntaxError, suggestion
from millstream.sql.syntax import variables as substitution
from millstream.sql.syntax.tokens import START, Kind, Token, tokens, unquoted
from millstream.sql.syntax.tree import Literal, Position
from millstream.sql.syntax.words import RESERVED, UNITS, unit_of

MAX_DEPTH = 150
"""How deep expressions and types are nested at most, so that no pass over a tree exceeds Python's recursion limit."""

MAX_COLUMNS = 10_000
"""The most columns of a source, items of a SELECT, or fields of a struct."""

_IDENTIFIERS = {Kind.DIGIT_WORD, Kind.QUOTED, Kind.VARIABLE}
_NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}
_SOURCE_NAME = re.compile(r"[A-Za-z0-9_-]*")
_MOST_DIGITS = 30
_LARGEST = 2**63 - 1
_NOT_IN_THE_LANGUAGE = {
    "ORDER": "ksqlDB's dialect has no ORDER BY: a stream has no end to sort",
    "UNION": "the dialect has no UNION: write a second query with INSERT INTO",
    "OFFSET": "the dialect has no OFFSET",
    "CROSS": "the dialect has no CROSS JOIN",
    "NATURAL": "the dialect has no NATURAL JOIN: name the columns with ON",
    "USING": "the dialect has no USING: write ON a.x = b.y",
    "OVER": "the dialect has no window functions: use WINDOW … GROUP BY",
}

T = TypeVar("T")


class Cursor:
    """Tokens, and the index of the next one."""

    def __init__(self, text: str, variables: Mapping[str, str] | None = None, at: Position = START) -> None:
        self.text = text
        self.variables = {name.upper(): value for name, value in (variables or {}).items()}
        self.tokens = list(tokens(text, at))
        self.index = 0
        self.next = self.tokens[0]
        self.depth = 0

    # ----- moving ----------------------------------------------------------------------------------------------------

    def take(self) -> Token:
        """Returns the next token and moves on. Nothing moves past the end."""
        token = self.next
        if token.kind is not Kind.END:
            self.index += 1
            self.next = self.tokens[self.index]
        return token

    def go_to(self, index: int) -> None:
        """Moves to a token that was next before."""
        self.index = index
        self.next = self.tokens[index]

    def ahead(self, count: int) -> Token:
        """Returns the token that is ``count`` tokens after the next one."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def accept(self, *words: str) -> bool:
        """Takes these words if they are next, all of them."""
        if self.next.word != words[0]:
            return False
        if any(self.ahead(count).word != word for count, word in enumerate(words)):
            return False
        for _word in words:
            self.take()
        return True

    def expect(self, *words: str) -> Token:
        """Takes these words, which must be next, and returns the first of their tokens."""
        first = self.next
        for word in words:
            if self.next.word != word:
                self.fail((word,))
            self.take()
        return first

    def one_of(self, *words: str) -> str:
        """Takes one of these words."""
        if self.next.word not in words:
            self.fail(words)
        return self.take().word

    # ----- names and values ------------------------------------------------------------------------------------------

    def is_identifier(self, token: Token) -> bool:
        """Whether a token can be an identifier."""
        return (token.kind is Kind.WORD and token.word not in RESERVED) or token.kind in _IDENTIFIERS

    def identifier(self, what: str = "an identifier", *, keep_case: bool = False) -> str:
        """Takes an identifier: in upper case unless it is quoted."""
        token = self.next
        if not self.is_identifier(token):
            self.fail((), what)
        self.take()
        text = token.text
        if token.kind is Kind.VARIABLE:
            value = substitution.value_of(text, self.variables, token.at)
            text = substitution.identifier_text(value, token.at)
        if text[0] in '`"':
            name = unquoted(text)
            if not name:
                raise SqlSyntaxError("an identifier is empty", at=token.at)
            return name
        return text if keep_case else text.upper()

    def source_name(self, what: str = "the name of a stream or table") -> str:
        """Takes the name of a source, which has fewer characters to choose from than other identifiers."""
        at = self.next.at
        name = self.identifier(what)
        if not _SOURCE_NAME.fullmatch(name):
            raise SqlSyntaxError(
                f"Illegal argument. Source names may only contain alphanumeric values, '_' or '-'. Got: '{name}'", at=at
            )
        return name

    def string(self, what: str = "a string in single quotes") -> str:
        """Takes a string, with its variables replaced."""
        token = self.next
        if token.kind is not Kind.STRING:
            self.fail((), what)
        self.take()
        return substitution.substitute(unquoted(token.text), self.variables)

    def number(self, what: str) -> int:
        """Takes an integer, which may have a sign, where the grammar has room for any number."""
        first = self.next
        negative = self.accept("-")
        token = self.next
        if token.kind not in _NUMBERS:
            self.fail((), what)
        self.take()
        if token.kind is not Kind.INTEGER:
            raise SqlSyntaxError(f"Value must be integer for command: {what}, found {token}", at=first.at)
        value = integer(token)
        return -value if negative else value

    def duration(self) -> int:
        """Takes a number and its unit, and returns the milliseconds."""
        at = self.next.at
        number = self.number("a duration such as 10 SECONDS")
        unit = unit_of(self.next.word)
        if unit is None:
            self.fail(tuple(f"{unit}S" for unit in UNITS))
        self.take()
        milliseconds = number * UNITS[unit]
        if not 0 <= milliseconds <= _LARGEST:
            raise SqlSyntaxError(f"the duration {number} {unit} is out of range", at=at, hint="0 ms to 2^63 - 1 ms")
        return milliseconds

    def literal(self) -> Literal | None:
        """Takes a literal if one is next. A minus before a number belongs to it."""
        first = token = self.next
        negative = token.word == "-" and self.ahead(1).kind in _NUMBERS
        if negative:
            self.take()
            token = self.next
        if token.kind is Kind.VARIABLE:
            token = self._literal_of_variable(token)
        if token.kind is Kind.STRING:
            value: bool | float | Decimal | str | None = substitution.substitute(unquoted(token.text), self.variables)
        elif token.kind in _NUMBERS:
            value = _number_value(token, negative=negative)
        elif token.word in _CONSTANTS:
            value = _CONSTANTS[token.word]
        else:
            return None
        self.take()
        return Literal(at=first.at, value=value)

    def _literal_of_variable(self, token: Token) -> Token:
        value = substitution.value_of(token.text, self.variables, token.at)
        text = substitution.literal_text(value, token.at)
        negative = text.startswith("-")
        first = next(tokens(text.removeprefix("-"), token.at))
        return first._replace(text=f"-{first.text}") if negative else first

    # ----- lists -----------------------------------------------------------------------------------------------------

    def listed(self, item: Callable[[], T], what: str | None = None) -> tuple[T, ...]:
        """Takes items between commas. ``what`` names them if their number has a limit."""
        items = [item()]
        while self.next.word == ",":
            self.take()
            items.append(item())
            if what is not None and len(items) > MAX_COLUMNS:
                raise SqlSyntaxError(f"more than {MAX_COLUMNS} {what}", at=self.next.at)
        return tuple(items)

    # ----- errors ----------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Counts a level of nesting; the caller counts it down again."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep(self.next.at)

    def fail(self, words: Iterable[str], what: str | None = None) -> NoReturn:
        """Reports that the next token is none of these words, or not what was expected."""
        token, words = self.next, tuple(words)
        expected = what or _alternatives(words)
        if what is not None and not words and token.kind is Kind.WORD and token.word in RESERVED and "ident" in what:
            raise SqlSyntaxError(
                f'"{token.text}" is a reserved keyword and it can\'t be used as an identifier',
                at=token.at,
                hint=f"quote it: `{token.word}`",
            )
        raise SqlSyntaxError(f"expected {expected}, found {token}", at=token.at, hint=self._hint(token, words))

    def _hint(self, token: Token, words: tuple[str, ...]) -> str | None:
        if token.word in _NOT_IN_THE_LANGUAGE:
            return _NOT_IN_THE_LANGUAGE[token.word]
        known = [word for word in words if word.isalpha()]
        candidates = [token] if self.index == 0 else [token, self.tokens[self.index - 1]]
        for candidate in candidates:  # a misspelt keyword is read as an alias: the error is then at the token after it
            if candidate.kind is Kind.WORD and candidate.word not in words:
                hint = suggestion(candidate.word, known)
                if hint is not None:
                    return hint
        return None


_CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}


def _alternatives(words: tuple[str, ...]) -> str:
    quoted = [word if word.isalpha() else f"'{word}'" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def too_deep(at: Position) -> SqlSyntaxError:
    """The error of an expression or type that is nested too deeply."""
    return SqlSyntaxError(f"the statement is nested more than {MAX_DEPTH} levels deep", at=at)


def integer(token: Token, *, negative: bool = False) -> int:
    """Returns the value of an integer, which must have 64 bits at most."""
    digits = token.text.lstrip("0") or "0"
    value = int(digits) if len(digits) < _MOST_DIGITS else _LARGEST + 2
    if value > _LARGEST + negative:
        shown = token.text if len(token.text) <= _MOST_DIGITS * 2 else f"{token.text[: _MOST_DIGITS * 2]}…"
        raise SqlSyntaxError(
            f"Invalid numeric literal: {'-' if negative else ''}{shown}",
            at=token.at,
            hint="integers have 64 bits; write 1e30 for a DOUBLE or a point for a DECIMAL",
        )
    return value


def _number_value(token: Token, *, negative: bool) -> int | float | Decimal:
    if token.text.startswith("-"):  # from a variable
        token, negative = token._replace(text=token.text[1:]), not negative
    if token.kind is Kind.INTEGER:
        value = integer(token, negative=negative)
        return -value if negative else value
    sign = "-" if negative else ""
    if token.kind is Kind.DECIMAL:
        return Decimal(sign + token.text)
    number = float(sign + token.text)
    if number in {float("inf"), float("-inf")}:
        raise SqlSyntaxError(f"Invalid numeric literal: {sign}{token.text}", at=token.at, hint="beyond DOUBLE's range")
    return number
