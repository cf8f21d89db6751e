"""The names of channels, as clients send them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from millstream.core.names import check_name
from millstream.errors import MillstreamError
from millstream.text.escaping import printable

Kind: TypeAlias = Literal["applications", "application", "alerts", "store", "key", "topic"]

MOST_CHANNELS = 50
"""The largest number of channels of a stream."""

MOST_CHARACTERS = 2000
"""The longest name of a channel."""

FORMS = "applications, application:ID, alerts, store:APPLICATION/STORE, key:APPLICATION/STORE/KEY, topic:NAME"

_TOPIC = re.compile(r"([^/@]*)(?:/([0-9]{1,6}))?(?:@(start|end|[0-9]{1,18}))?")


class ChannelError(MillstreamError):
    """A channel, or the id of an event, is not valid."""

    code = "channel"


class Channel(NamedTuple):
    """A channel.

    Attributes:
        text: Its name, as the client has sent it. Its events have it.
        kind: What its events are about; also the kind of its events.
        name: The application, or the topic.
        store: The store of an application.
        key: The key, in JSON.
        partition: The only partition of the topic; None: all.
        start: Where the records of a topic begin: an offset, ``start`` or ``end``.
    """

    text: str
    kind: Kind
    name: str = ""
    store: str = ""
    key: str = ""
    partition: int | None = None
    start: int | Literal["start", "end"] = "end"


def parse_channel(text: str) -> Channel:
    """Returns the channel of a name.

    >>> parse_channel("topic:orders/3@120")[1:]
    ('topic', 'orders', '', '', 3, 120)
    >>> parse_channel('key:shop/totals/["a/b",1]')[1:5]
    ('key', 'shop', 'totals', '["a/b",1]')

    Raises:
        ChannelError: There is no such channel.
        InvalidNameError: The name of the application, the store or the topic is not allowed.
    """
    if len(text) > MOST_CHARACTERS:
        raise ChannelError(f"the name of a channel has {len(text)} characters", hint=f"at most {MOST_CHARACTERS}")
    kind, colon, rest = text.partition(":")
    if kind in {"applications", "alerts"} and not colon:
        return Channel(text, "applications" if kind == "applications" else "alerts")
    if kind == "application" and colon:
        return Channel(text, "application", check_name(rest, "application"))
    if kind == "store" and rest.count("/") == 1:
        application, _, store = rest.partition("/")
        return Channel(text, "store", check_name(application, "application"), check_name(store, "store"))
    if kind == "key" and rest.count("/") >= 2:
        application, store, key = rest.split("/", 2)
        return Channel(text, "key", check_name(application, "application"), check_name(store, "store"), key)
    match = _TOPIC.fullmatch(rest) if kind == "topic" and colon else None
    if match is None:
        raise ChannelError(f"there is no channel {printable(text[:80])!r}", hint=f"the channels are: {FORMS}")
    topic, partition, start = match.groups()
    return Channel(
        text,
        "topic",
        check_name(topic, "topic"),
        partition=None if partition is None else int(partition),
        start="start" if start == "start" else "end" if start in {"end", None} else int(start),
    )


def parse_channels(texts: list[str]) -> list[Channel]:
    """Returns the channels of a stream, each once.

    Raises:
        ChannelError: One is not valid, or there are too many.
    """
    channels = [parse_channel(text) for text in dict.fromkeys(texts)]
    if not 1 <= len(channels) <= MOST_CHANNELS:
        raise ChannelError(
            f"the stream has {len(channels)} channels, and may have 1 to {MOST_CHANNELS}",
            hint=f"name each as ?channel=…; the channels are: {FORMS}",
        )
    return channels
