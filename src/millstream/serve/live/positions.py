"""The ids of events. An id has the position of its stream in every channel, so that any server can continue from it.

An id is text without spaces, such as ``topic:orders=0:17,1:4;store:shop/totals=0:9``: channels, and in each the next
offset by partition. The position in a channel that the server itself publishes has the run of the server in place of
a partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote, unquote

from millstream.serve.live.channels import ChannelError

Positions: TypeAlias = dict[str, dict[str, int]]
"""The next position by channel and place. A place is a partition, or a run of the server."""

MOST_CHARACTERS = 200_000
"""The longest id."""

_PLACES = re.compile(r"(?:[0-9a-z]{1,20}:[0-9]{1,18})(?:,[0-9a-z]{1,20}:[0-9]{1,18})*")


def channel_text(channel: str) -> str:
    """Returns the name of a channel as it is in ids.

    >>> channel_text('key:shop/totals/"é;="')
    'key:shop/totals/%22%C3%A9%3B%3D%22'
    """
    return quote(channel, safe=":/@", errors="surrogatepass")


def write_id(positions: Mapping[str, Mapping[str, int]]) -> str:
    """Returns the id of positions.

    >>> write_id({"topic:orders": {"0": 17, "1": 4}})
    'topic:orders=0:17,1:4'
    """
    return ";".join(
        f"{channel_text(channel)}={','.join(f'{place}:{offset}' for place, offset in places.items())}"
        for channel, places in positions.items()
    )


def read_id(text: str) -> Positions:
    """Returns the positions of an id.

    >>> read_id("topic:orders=0:17,1:4;key:a/b/%22=0:1")
    {'topic:orders': {'0': 17, '1': 4}, 'key:a/b/"': {'0': 1}}

    Raises:
        ChannelError: It is not an id.
    """
    positions: Positions = {}
    if len(text) > MOST_CHARACTERS:
        raise _invalid()
    for entry in filter(None, text.split(";")):
        channel, _, places = entry.partition("=")
        if not channel or not _PLACES.fullmatch(places):
            raise _invalid()
        split = (place.split(":") for place in places.split(","))
        positions[unquote(channel, errors="surrogatepass")] = {name: int(offset) for name, offset in split}
    return positions


def _invalid() -> ChannelError:
    return ChannelError(
        "the id of the last event is not one that a server has sent", hint="connect without it: the stream begins anew"
    )
