"""The answer to a query: its columns, and its rows as they come."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Literal

from millstream.core.frozen import Frozen
from millstream.sql.requests.deployment import ResultRow, RunningTransient
from millstream.sql.types import SqlType

_MOST_ROWS = 1000

LIMIT_REACHED, COMPLETED = "Limit Reached", "Query Completed"
Kind = Literal["pull", "push", "stream pull"]


class ResultColumn(Frozen):
    """A column of a result; `is_key` marks the keys of a table in the answer of a pull query."""

    name: str
    type: SqlType
    is_key: bool = False

    def __str__(self) -> str:
        return f"`{self.name}` {self.type}{' KEY' if self.is_key else ''}"


class Answer:
    """The rows of a query.

    Attributes:
        query_id: The id of the query.
        kind: A pull query of a table, a pull query of a stream, or a push query.
        columns: The columns of its rows.
    """

    def __init__(
        self,
        query_id: str,
        kind: Kind,
        columns: Sequence[ResultColumn],
        running: RunningTransient,
        limit: int | None = None,
    ) -> None:
        self.query_id = query_id
        self.kind = kind
        self.columns = tuple(columns)
        self._running = running
        self._left = limit
        if limit == 0:
            running.stop()

    def poll(self, timeout: float = 0.1) -> Sequence[ResultRow]:
        """Returns rows that have come; waits at most `timeout` seconds for the first. Stops the query at its limit."""
        if self._left == 0:
            return []
        rows = self._running.poll(timeout)
        if self._left is not None:
            rows = rows[: self._left]
            self._left -= len(rows)
            if self._left == 0:
                self.close()
        return rows

    @property
    def finished(self) -> bool:
        """Whether there are no more rows."""
        return self._left == 0 or self._running.finished

    @property
    def final_message(self) -> str | None:
        """Why the rows ended; None for pull queries of tables, which need no message, and for a query that runs."""
        if self.kind == "pull" or not self.finished:
            return None
        if self._left == 0:
            return LIMIT_REACHED
        return COMPLETED if self.kind == "stream pull" else None

    def close(self) -> None:
        """Stops the query."""
        self._running.stop()


class ReadyRows:
    """Rows that are read from a table as they are asked for.

    Args:
        rows: The rows; None for each row that was read and is no part of the answer.
    """

    def __init__(self, rows: Iterable[ResultRow | None]) -> None:
        self._rows = iter(rows)
        self._finished = False

    def poll(self, timeout: float) -> Sequence[ResultRow]:
        """Returns the next rows, those that it has found when the time is over."""
        deadline = time.monotonic() + timeout
        rows: list[ResultRow] = []
        for row in () if self._finished else self._rows:
            if row is not None:
                rows.append(row)
            if len(rows) == _MOST_ROWS or time.monotonic() > deadline:
                return rows
        self._finished = True
        return rows

    @property
    def finished(self) -> bool:
        """Whether all rows have been returned."""
        return self._finished

    def stop(self) -> None:
        """Returns no more rows."""
        self._finished = True
