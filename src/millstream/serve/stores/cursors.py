"""Cursors: the place at which the next page of a query continues."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections import OrderedDict
from typing import Annotated, Any, cast

import msgspec
from fastapi import HTTPException

from millstream.serve.stores.definitions import StoreDefinition
from millstream.views.pages import Place, Selection

MOST_CHARACTERS = 16_000
"""The longest cursor. A line of a request is limited to 64 kB."""

PATTERN = "^[A-Za-z0-9_.-]*$"
_LONGEST_KEY = 10_000

_PREFIX = "."
"""The first character of a random name: it does not occur in base64."""
_MOST_HIDDEN = 10_000

_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode = msgspec.msgpack.Decoder(tuple[bytes, _INT64, bytes, _INT64, _INT64]).decode


class Cursors:
    """Makes and reads cursors.

    A cursor has the place itself, so it is valid as long as the store exists. If the key of the place is hidden from
    the sender, or is long, the cursor is a random name, and the server keeps the place for a while.
    """

    def __init__(self) -> None:
        self._hidden: OrderedDict[str, tuple[bytes, Place]] = OrderedDict()

    def of(self, store: StoreDefinition, selection: Selection, place: Place, *, hide: bool) -> str:
        """Returns the cursor of the rows of a query after a place.

        Args:
            store: The store.
            selection: The selection of the query.
            place: The place of the last row.
            hide: The sender may not see the key of the place.
        """
        digest = _digest(store, selection)
        if not hide and len(place[1]) <= _LONGEST_KEY:
            data = msgspec.msgpack.encode((digest, *place))
            return base64.urlsafe_b64encode(data).decode().rstrip("=")
        cursor = _PREFIX + secrets.token_urlsafe(16)
        self._hidden[cursor] = (digest, place)
        if len(self._hidden) > _MOST_HIDDEN:
            self._hidden.popitem(last=False)
        return cursor

    def place(self, store: StoreDefinition, selection: Selection, cursor: str) -> Place:
        """Returns the place of a cursor.

        Raises:
            HTTPException: 400, it is not a cursor of this query.
        """
        kept = self._hidden.get(cursor) if cursor.startswith(_PREFIX) else _decoded(cursor)
        if kept is None:
            raise HTTPException(400, "the cursor is not one that this route has returned, or it has expired")
        digest, place = kept
        if digest != _digest(store, selection):
            message = "the cursor belongs to another query: a page has the parameters of the page before"
            raise HTTPException(400, message)
        return place


def _decoded(cursor: str) -> tuple[bytes, Place] | None:
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        digest, *place = _decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        return None
    return digest, cast("Place", tuple(place))


def _digest(store: StoreDefinition, selection: Selection) -> bytes:
    query: Any = (store.application, store.name, store.kind, *selection)
    return hashlib.blake2s(msgspec.msgpack.encode(query), digest_size=8).digest()
