"""Completes keywords, names of streams, tables, columns, types and functions, ids of queries, and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from millstream.sql.statements.session import Session
from millstream.sql.syntax.words import KEYWORDS

_SOURCES_FOLLOW = {"FROM", "JOIN", "INTO", "DESCRIBE", "TABLE", "STREAM"}
_QUERIES_FOLLOW = {"TERMINATE", "PAUSE", "RESUME", "EXPLAIN"}


class Candidate(NamedTuple):
    """A text that can take the place of the last word, and what it names."""

    text: str
    kind: str


class Completions:
    """Completes the last word of a text.

    Args:
        session: The catalog and the functions.
        topics: Returns the names of the topics.
        words: Words that are offered besides the keywords of the dialect.
    """

    def __init__(self, session: Session, topics: Callable[[], Iterable[str]], words: Iterable[str] = ()) -> None:
        self._session = session
        self._topics = topics
        self._words = sorted({*KEYWORDS, *words})

    def of(self, text: str) -> list[Candidate]:
        """Returns the names and words that begin with the last word of a text, those that are likely first."""
        word = last_word(text)
        previous = text[: len(text) - len(word)].split()
        return [
            Candidate(name.lower() if kind in {"keyword", "function"} and word.islower() else name, kind)
            for name, kind in self._all(previous[-1].upper() if previous else "")
            if name.upper().startswith(word.upper()) and name != word
        ]

    def _all(self, previous: str) -> list[tuple[str, str]]:
        """Returns the names and words that can follow a word."""
        catalog = self._session.catalog.copy()
        sources = [(_quoted(name), source.kind.lower()) for name, source in sorted(catalog.sources.items())]
        queries = [(name, "query") for name in sorted(catalog.queries)]
        if previous == "PRINT":
            return [(name if name.isupper() else f"'{name}'", "topic") for name in sorted(self._topics())]
        if previous in _QUERIES_FOLLOW:
            return [*queries, ("ALL", "keyword")]
        columns = {
            _quoted(name): "column"
            for source in catalog.sources.values()
            for name in (*(item.name for item in (*source.key, *source.value)), *(item.name for item in source.headers))
        }
        words = [(word, "keyword") for word in self._words]
        functions = [(function.name, "function") for function in self._session.functions]
        types = [(_quoted(name), "type") for name in sorted(catalog.types)]
        if previous in _SOURCES_FOLLOW:
            return [*sources, *words]
        return [*sorted(columns.items()), *sources, *words, *functions, *types]


def last_word(text: str) -> str:
    """Returns the word that a text ends with, which may be empty.

    >>> last_word("SELECT * FROM pag"), last_word("PRINT 'orders"), last_word("SELECT ")
    ('pag', "'orders", '')
    """
    at = len(text)
    while at and (text[at - 1].isalnum() or text[at - 1] in "_`'"):
        at -= 1
    return text[at:]


def _quoted(name: str) -> str:
    return name if name.isupper() and name.replace("_", "a").isalnum() else f"`{name}`"
