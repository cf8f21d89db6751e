"""Cursors: the place at which the next page of a query continues."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Any

import msgspec
from fastapi import HTTPException

from millstream.serve.stores.definitions import StoreDefinition
from millstream.views.pages import Place, Selection

MOST_CHARACTERS = 60_000
"""The longest cursor. A line of a request is limited to 64 kB."""

_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode = msgspec.msgpack.Decoder(tuple[bytes, _INT64, bytes, _INT64, _INT64]).decode


def cursor_of(store: StoreDefinition, selection: Selection, place: Place) -> str:
    """Returns the cursor of the rows of a query after a place."""
    data = msgspec.msgpack.encode((_digest(store, selection), *place))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def place_of(store: StoreDefinition, selection: Selection, cursor: str) -> Place:
    """Returns the place of a cursor.

    Raises:
        HTTPException: 400, it is not a cursor of this query.
    """
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        digest, partition, key, time, rank = _decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise HTTPException(400, "the cursor is not one that this route has returned") from None
    if digest != _digest(store, selection):
        raise HTTPException(400, "the cursor belongs to another query: a page has the parameters of the page before")
    return partition, key, time, rank


def _digest(store: StoreDefinition, selection: Selection) -> bytes:
    query: Any = (store.application, store.name, store.kind, *selection)
    return hashlib.blake2s(msgspec.msgpack.encode(query), digest_size=8).digest()
