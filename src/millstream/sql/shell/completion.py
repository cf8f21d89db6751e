"""Completes keywords, names of streams, tables, columns, types and functions, ids of queries, and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from millstream.sql.statements.session import Session
from millstream.sql.syntax.words import KEYWORDS

_SOURCES_FOLLOW = {"FROM", "JOIN", "INTO", "DESCRIBE", "TABLE", "STREAM"}
_QUERIES_FOLLOW = {"TERMINATE", "PAUSE", "RESUME", "EXPLAIN"}
_WORDS_OF_THE_SHELL = ("EXIT", "HELP", "PAUSE", "QUIT", "RESUME")


class SqlCompleter(Completer):
    """Completes the word before the cursor.

    Args:
        session: The catalog and the functions.
        topics: Returns the names of the topics.
    """

    def __init__(self, session: Session, topics: Callable[[], Iterable[str]]) -> None:
        self._session = session
        self._topics = topics

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yields the words that begin with that before the cursor."""
        before = document.text_before_cursor
        word = _last_word(before)
        if not word and not complete_event.completion_requested:
            return
        previous = before[: len(before) - len(word)].split()
        for name, kind in self.candidates(previous[-1].upper() if previous else ""):
            if name.upper().startswith(word.upper()) and name != word:
                shown = name.lower() if kind in {"keyword", "function"} and word.islower() else name
                yield Completion(shown, start_position=-len(word), display_meta=kind)

    def candidates(self, previous: str) -> list[tuple[str, str]]:
        """Returns the names and words that can follow a word, those that are likely first, each with its kind."""
        catalog = self._session.catalog
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
        words = [(word, "keyword") for word in sorted({*KEYWORDS, *_WORDS_OF_THE_SHELL})]
        functions = [(function.name, "function") for function in self._session.functions]
        types = [(_quoted(name), "type") for name in sorted(catalog.types)]
        if previous in _SOURCES_FOLLOW:
            return [*sources, *words]
        return [*sorted(columns.items()), *sources, *words, *functions, *types]


def _last_word(text: str) -> str:
    at = len(text)
    while at and (text[at - 1].isalnum() or text[at - 1] in "_`'"):
        at -= 1
    return text[at:]


def _quoted(name: str) -> str:
    return name if name.isupper() and name.replace("_", "a").isalnum() else f"`{name}`"
