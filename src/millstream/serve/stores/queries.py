"""Answers queries of stores: point queries in the event loop, all others in a few threads of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import HTTPException, Request

from millstream.errors import UnknownStoreError
from millstream.serde.windowed import window_bytes
from millstream.serve.access.roles import Principal
from millstream.serve.data import ServedData
from millstream.serve.operations.decoding import Decoder
from millstream.serve.operations.masking import Mask
from millstream.serve.operations.tagged_fields import TaggedFields, tagged_fields
from millstream.serve.stores.codec import with_window
from millstream.serve.stores.cursors import Cursors
from millstream.serve.stores.definitions import Definitions, StoreDefinition
from millstream.serve.stores.positions import Positions
from millstream.serve.stores.reader import Answer, StoreReader
from millstream.views.pages import Place, Selection

T = TypeVar("T")

_THREADS = 4
"""Scans take the interpreter from point queries, so few of them run at a time."""
_KEEP = 5.0


class StoreQueries:
    """Queries of the stores of all applications. Its methods run in the event loop.

    Args:
        data: The data of the server.
        decoder: The decoder, which has the schema registry and knows personal fields.
    """

    def __init__(self, data: ServedData, decoder: Decoder) -> None:
        self.data = data
        self.masks = decoder.masks
        self.definitions = Definitions(data, decoder.reference)
        self.cursors = Cursors()
        self.positions = Positions(data.views)
        self.reader = StoreReader(data)
        self._limiter = CapacityLimiter(_THREADS)
        self._applications: tuple[float, list[str]] = (-_KEEP, [])

    async def store(self, principal: Principal, application: str, name: str) -> StoreDefinition:
        """Returns the definition of a store that a sender may read.

        Raises:
            HTTPException: 403, it may not.
            UnknownStoreError: There is no such store.
        """
        if not principal.may_read(application, name):
            raise HTTPException(403, "the token may not read this store")
        try:
            return await self.definitions.store(application, name)
        except UnknownStoreError:
            if not principal.stores:
                raise
            raise _nothing() from None  # the hint names other stores

    async def stores(self, principal: Principal, application: str) -> list[StoreDefinition]:
        """Returns the definitions of the stores that a sender may read, by name.

        Raises:
            HTTPException: 404, its token is limited to stores, and the application has none of them.
            UnknownApplicationError: There is no such application.
        """
        try:
            stores = await self.definitions.stores(application)
        except UnknownStoreError:
            if not principal.stores:
                raise
            stores = {}
        visible = [store for name, store in sorted(stores.items()) if principal.may_read(application, name)]
        if principal.stores and not visible:
            raise _nothing()
        return visible

    async def key(self, store: StoreDefinition, key: bytes, selection: Selection, at_least: int, wait: float) -> Answer:
        """Returns the rows of a key: one at most, unless the store has windows or all versions are asked for."""
        await self._wait(store, at_least, wait)
        if store.kind == "key-value":
            answer = self.reader.row_at_once(store, key, at_least)
            if answer is not None:
                return answer
        return await self._in_thread(partial(self.reader.page, store, selection, 1, None, at_least))

    async def page(
        self,
        store: StoreDefinition,
        selection: Selection,
        limit: int,
        after: Place | None = None,
        at_least: int = 0,
        wait: float = 0.0,
    ) -> Answer:
        """Returns a page of rows."""
        await self._wait(store, at_least, wait)
        return await self._in_thread(partial(self.reader.page, store, selection, limit, after, at_least))

    async def many(self, store: StoreDefinition, selections: Sequence[Selection], at_least: int, wait: float) -> Answer:
        """Returns the rows of several selections."""
        await self._wait(store, at_least, wait)
        return await self._in_thread(partial(self.reader.many, store, selections, at_least))

    async def converted(self, store: StoreDefinition, convert: Callable[[], T]) -> T:
        """Converts keys or rows of a store: in a thread, if the schema registry may have to be asked."""
        return await self._in_thread(convert) if store.reads_registry else convert()

    async def rows(
        self, principal: Principal, store: StoreDefinition, convert: Callable[[], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Returns rows as JSON, as a sender may see them."""
        shown = await self.converted(store, convert)
        if not principal.sees_personal_fields:
            for mask in self._masks(store):
                shown = [mask.record(row) for row in shown]
        return [with_window(store, row) for row in shown] if window_bytes(store.key) else shown

    def hides_keys(self, principal: Principal, store: StoreDefinition) -> bool:
        """Whether the keys of a store have personal fields that a sender may not see."""
        return not principal.sees_personal_fields and any(mask.hides_keys for mask in self._masks(store))

    def check_range(self, principal: Principal, store: StoreDefinition) -> None:
        """Refuses ranges of keys that a sender may not see: smaller and smaller ranges would tell a key.

        Raises:
            HTTPException: 403, it may not see the keys.
        """
        if self.hides_keys(principal, store):
            raise HTTPException(
                403, "the keys have personal fields: a range or a prefix of them needs the role operator"
            )

    async def application(self, principal: Principal, named: str | None) -> str:
        """Returns the application of a request that need not name it.

        Raises:
            HTTPException: 400, the server serves several applications, and the request names none.
        """
        only = named or self.data.options.application
        if only is not None:
            return only
        read, names = self._applications
        if time.monotonic() - read > _KEEP:
            names = await self._in_thread(self.data.applications)
            self._applications = (time.monotonic(), names)
        if len(names) != 1:
            shown = "" if principal.stores else f": the applications are: {', '.join(names[:20]) or 'none'}"
            raise HTTPException(400, f"name the application, ?application=…{shown}")
        return names[0]

    async def row_counts(self, application: str, names: Sequence[str]) -> dict[str, int | None]:
        """Returns the numbers of rows of stores."""
        return await self._in_thread(partial(self.reader.row_counts, application, names))

    def _masks(self, store: StoreDefinition) -> Iterator[Mask]:
        """The personal fields of the rows of a store."""
        yield self.masks.store(store.application, store.name)
        if fields := tagged_fields(store.inner_key):
            keys = TaggedFields()
            keys.parts["key"] = fields
            yield Mask(key=keys)

    async def _wait(self, store: StoreDefinition, at_least: int, seconds: float) -> None:
        if at_least and seconds:
            await self.positions.wait(store.application, at_least, seconds)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._limiter)


def _nothing() -> HTTPException:
    return HTTPException(404, "there is no such store that the token may read")


def queries_of(request: Request) -> StoreQueries:
    """The queries of the server."""
    queries: StoreQueries = request.app.state.stores
    return queries
