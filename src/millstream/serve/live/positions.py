"""The ids of events. An id has the position of its stream in every channel, so that any server can continue from it.

An id is text without spaces, such as ``topic:orders=0:17,1:4;store:shop/totals=0:9``: channels, and in each the next
offset by partition. The position in a channel that the server itself publishes has the run of the server in place of
a partition.
"""

from __future__ import annotations

import re
from typing import TypeAlias
from urllib.parse import unquote

from millstream.serve.live.channels import ChannelError

Positions: TypeAlias = dict[str, dict[str, int]]
"""The next position by channel and place. A place is a partition, or a run of the server."""

MOST_CHARACTERS = 40_000
"""The longest id: a browser sends it in a header, and the server accepts headers of 64 KiB."""

_PLACES = re.compile(r"(?:[0-9a-z]{1,20}:[0-9]{1,18})(?:,[0-9a-z]{1,20}:[0-9]{1,18})*")


def read_id(text: str) -> Positions:
    """Returns the positions of an id.

    >>> read_id("topic:orders=0:17,1:4;key:a/b/%22=0:1")
    {'topic:orders': {'0': 17, '1': 4}, 'key:a/b/"': {'0': 1}}

    Raises:
        ChannelError: It is not an id.
    """
    positions: Positions = {}
    if len(text) > MOST_CHARACTERS or not text.isascii():
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
