"""Completes the input of the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from millstream.sql.requests.completion import Completions, last_word
from millstream.sql.statements.session import Session

_WORDS_OF_THE_SHELL = ("EXIT", "HELP", "PAUSE", "QUIT", "RESUME")


class SqlCompleter(Completer):
    """Completes the word before the cursor.

    Args:
        session: The catalog and the functions.
        topics: Returns the names of the topics.
    """

    def __init__(self, session: Session, topics: Callable[[], Iterable[str]]) -> None:
        self._completions = Completions(session, topics, _WORDS_OF_THE_SHELL)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yields the words that begin with that before the cursor."""
        before = document.text_before_cursor
        word = last_word(before)
        if word or complete_event.completion_requested:
            for text, kind in self._completions.of(before):
                yield Completion(text, start_position=-len(word), display_meta=kind)
