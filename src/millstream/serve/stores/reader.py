"""Reads rows of a store, and the position that they show, in one snapshot."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fastapi import HTTPException

from millstream.errors import StateError, UnknownStoreError
from millstream.serve.data import ServedData
from millstream.serve.stores.definitions import StoreDefinition
from millstream.views.commits import Commit, last_commit
from millstream.views.integrity import row_count
from millstream.views.pages import Page, Place, Selection, ViewRow, read_page, read_row
from millstream.views.tables import StoreEntry, find_store

MOST_ROWS = 1000
_MOST_BYTES = 4_000_000
"""The size of keys and values at which a page ends."""

_SECONDS = 8.0
_INSTRUCTIONS = 20_000
"""SQLite compares the clock after so many of its instructions, which take about a millisecond."""

_EMPTY = Page([], False)


class Answer(NamedTuple):
    """The rows of an answer, one page for each selection; and the commit that they show, None before the first one."""

    pages: list[Page]
    commit: Commit | None


class StoreReader:
    """Reads the rows of stores. It may be used from any thread.

    Args:
        data: The data of the server.
    """

    def __init__(self, data: ServedData) -> None:
        self._data = data

    def row_at_once(self, store: StoreDefinition, key: bytes, at_least: int) -> Answer | None:
        """Returns the row of a key in a key-value store; None if the answer takes longer than a look-up.

        The first time that a row is not found, the view is checked: only then it is certain that there is none.

        Raises:
            HTTPException: 503, the position is not reached.
        """
        with self._data.views.reading() as connection:
            entry, commit = self._begin(connection, store, at_least)
            row = None if entry is None else read_row(connection, entry, key)
            if row is None and entry is not None and not self._data.views.is_checked(entry):
                return None
        return Answer([_EMPTY if row is None else Page([row], False)], commit)

    def page(
        self, store: StoreDefinition, selection: Selection, limit: int, after: Place | None, at_least: int
    ) -> Answer:
        """Returns a page of rows.

        Raises:
            HTTPException: 503, the position is not reached, or the query takes too long.
        """
        with self._limited() as connection:
            entry, commit = self._begin(connection, store, at_least)
            if entry is None:
                return Answer([_EMPTY], commit)
            self._data.views.check(connection, entry)
            return Answer([read_page(connection, entry, selection, limit, after, _MOST_BYTES)], commit)

    def many(self, store: StoreDefinition, selections: Sequence[Selection], at_least: int) -> Answer:
        """Returns the rows of several selections.

        Raises:
            HTTPException: 400, there are too many rows; 503 as for `page`.
        """
        rows = size = 0
        pages: list[Page] = []
        with self._limited() as connection:
            entry, commit = self._begin(connection, store, at_least)
            if entry is None:
                return Answer([_EMPTY] * len(selections), commit)
            self._data.views.check(connection, entry)
            for selection in selections:
                page = read_page(connection, entry, selection, MOST_ROWS, None, _MOST_BYTES)
                rows += len(page.rows)
                size += sum(len(row.key) + len(row.value) for row in page.rows)
                if page.has_more or rows > MOST_ROWS or size > _MOST_BYTES:
                    message = f"the keys have more than {MOST_ROWS} rows or {_MOST_BYTES} bytes: ask for fewer"
                    raise HTTPException(400, message)
                pages.append(page)
        return Answer(pages, commit)

    def row_counts(self, application: str, names: Sequence[str]) -> dict[str, int | None]:
        """Returns the numbers of rows of stores; None for a damaged one."""
        counts: dict[str, int | None] = dict.fromkeys(names, 0)
        if self._data.location.views.exists():
            with self._data.views.reading() as connection:
                for name in names:
                    entry = find_store(connection, application, name)
                    if entry is not None:
                        counts[name] = row_count(connection, entry)
        return counts

    def _begin(
        self, connection: sqlite3.Connection, store: StoreDefinition, at_least: int
    ) -> tuple[StoreEntry | None, Commit | None]:
        """Takes the snapshot: the entry of a store, None before its first commit; and the commit of the snapshot."""
        commit = last_commit(connection, store.application)
        reached = 0 if commit is None else commit.number
        if reached < at_least:
            message = f"application {store.application!r} is at position {reached}, and not yet at {at_least}"
            raise HTTPException(503, message, {"Retry-After": "1", "X-Millstream-Position": str(reached)})
        entry = find_store(connection, store.application, store.name)
        if entry is not None and entry.kind != store.kind:
            message = f"store {store.name!r} is a {entry.kind} store, and becomes a {store.kind} store"
            raise StateError(message, hint="its application has been changed; the first commit replaces the store")
        return entry, commit

    @contextmanager
    def _limited(self) -> Iterator[sqlite3.Connection]:
        """A read transaction that is interrupted after a time."""
        if not self._data.location.views.exists():
            raise UnknownStoreError(
                f"the stores are not in {self._data.directory}: their rows are on the machine of the application",
                hint="start the server where the application runs, with its data directory",
            )
        until = time.monotonic() + _SECONDS
        try:
            with self._data.views.reading() as connection:
                connection.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
                try:
                    yield connection
                finally:
                    connection.set_progress_handler(None, 0)
        except StateError:
            if time.monotonic() > until:
                message = f"the query takes longer than {_SECONDS:g} s: ask for a smaller range"
                raise HTTPException(503, message, {"Retry-After": "1"}) from None
            raise


def rows_of(answer: Answer) -> list[ViewRow]:
    """Returns the rows of all pages of an answer."""
    return [row for page in answer.pages for row in page.rows]
