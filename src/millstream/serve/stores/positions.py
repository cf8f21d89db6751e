"""Waits until an application has made a commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import HTTPException

from millstream.errors import StateError
from millstream.views.commits import last_commit
from millstream.views.database import ViewDatabase

_EVERY = 0.005
_MOST = 1000


@dataclass(eq=False)
class _Waiter:
    application: str
    position: int
    reached: asyncio.Future[None]


class Positions:
    """The requests that wait for a commit. One task looks for the commits of all of them, in the event loop.

    Args:
        views: The views.
    """

    def __init__(self, views: ViewDatabase) -> None:
        self._views = views
        self._waiting: set[_Waiter] = set()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, application: str, position: int, seconds: float) -> None:
        """Returns when a position is reached, or the time is over.

        Raises:
            HTTPException: 503, too many requests wait.
        """
        if self._position(application) >= position:
            return
        if len(self._waiting) >= _MOST:
            raise HTTPException(503, "too many requests wait for a position: try again", {"Retry-After": "1"})
        waiter = _Waiter(application, position, asyncio.get_running_loop().create_future())
        self._waiting.add(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({waiter.reached}, timeout=seconds)
        finally:
            self._waiting.discard(waiter)

    async def _watch(self) -> None:
        while self._waiting:
            positions = {name: self._position(name) for name in {each.application for each in self._waiting}}
            for waiter in [*self._waiting]:
                if positions[waiter.application] >= waiter.position and not waiter.reached.done():
                    waiter.reached.set_result(None)
            await asyncio.sleep(_EVERY)

    def _position(self, application: str) -> int:
        try:
            with self._views.reading() as connection:
                commit = last_commit(connection, application)
        except StateError:  # there is no database yet, or the read that follows says what is wrong
            return 0
        return 0 if commit is None else commit.number
