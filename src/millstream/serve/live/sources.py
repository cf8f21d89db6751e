"""Finds the topics and partitions that a channel reads, checks the rights of the client, and finds its positions.

The changes of a store are the records of its changelog: they are committed, in order, and have offsets. A table whose
source topic serves as its changelog, and a global table, are followed in their source topic, which may be a moment
ahead of the application.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import HTTPException

from millstream.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SerdeError,
    SetupError,
    UnknownStoreError,
    UnknownTopicError,
    suggestion,
)
from millstream.schemas.json_values import parse_json, value_of_json
from millstream.serde import Serde, SerdeContext, list_of, serde_for, session_windowed, time_windowed
from millstream.serve.access.roles import Principal
from millstream.serve.data import ServedData
from millstream.serve.live.channels import Channel, ChannelError
from millstream.serve.live.encoding import Encode, Serdes, StoreEncoder, TopicEncoder
from millstream.serve.operations.applications import known
from millstream.serve.operations.decoding import Decoder
from millstream.serve.stores.definitions import window_size
from millstream.serve.stores.sql_serdes import sql_serde

_AROUND: Mapping[str, Callable[[Serde[Any], int | None], Serde[Any]]] = {
    "list": lambda inner, _size: list_of(inner),
    "time-windowed": time_windowed,
    "session-windowed": lambda inner, _size: session_windowed(inner),
}


@dataclass(frozen=True)
class LogSource:
    """A partition that a channel reads.

    Attributes:
        feed: The name of the feed that all streams of this source share.
        topic: The topic.
        partition: The partition.
        encode: Encodes its records.
        next: The offset with which the stream begins.
        end: The end of the partition.
        missed: Offsets that the stream should begin with, and that are not there: the first, and that after the last.
    """

    feed: Hashable
    topic: str
    partition: int
    encode: Encode
    next: int
    end: int
    missed: tuple[int, int] | None


@dataclass(frozen=True)
class Source:
    """What a channel shows.

    Attributes:
        channel: The channel.
        partitions: The partitions that it reads; none if it shows reports or what the server publishes.
        key: The bytes of the only key that it shows; None: all.
    """

    channel: Channel
    partitions: tuple[LogSource, ...] = ()
    key: bytes | None = None


class Sources:
    """Finds the sources of channels. It may be used from any thread, and blocks.

    Args:
        data: The data of the server.
        decoder: Its decoder.
    """

    def __init__(self, data: ServedData, decoder: Decoder) -> None:
        self._data = data
        self._decoder = decoder

    def source(self, channel: Channel, principal: Principal, after: Mapping[str, int]) -> Source:
        """Returns the source of a channel.

        Args:
            channel: The channel.
            principal: The client.
            after: The positions of the stream that it continues, by partition; none if it begins here.

        Raises:
            MillstreamError: It does not exist.
            HTTPException: 403 if the client may not read it.
        """
        is_of_store = channel.kind in {"store", "key"}
        if principal.stores and not (is_of_store and principal.may_read(channel.name, channel.store)):
            raise HTTPException(403, f"the token is limited to stores, and may not follow {channel.text!r}")
        if channel.kind == "topic":
            return self._topic(channel, principal, after)
        if is_of_store:
            return self._store(channel, principal, after)
        if channel.kind == "application":
            known(self._data, channel.name)
        return Source(channel)

    def _topic(self, channel: Channel, principal: Principal, after: Mapping[str, int]) -> Source:
        topic = self._data.log.topic(channel.name)
        if channel.partition is not None:
            topic.check_partition(channel.partition)
        chosen = range(topic.partitions) if channel.partition is None else [channel.partition]
        serdes = Serdes(*self._decoder.serdes(channel.name))
        mask = partial(self._decoder.masks.records, principal, channel.name)
        encoders = {number: TopicEncoder(number, serdes, mask) for number in chosen}
        feed = ("topic", principal.sees_personal_fields)
        return Source(channel, self._partitions(feed, channel, channel.name, encoders, after))

    def _store(self, channel: Channel, principal: Principal, after: Mapping[str, int]) -> Source:
        state = self._data.state(channel.name)
        plan = state.started_plan or {}
        stores: dict[str, Any] = {name: each for name, each in plan["stores"].items() if each["kind"] != "buffer"}
        if channel.store not in stores:
            names = [name for name in plan["named"] if name in stores]
            hint = suggestion(channel.store, names) or f"it has: {', '.join(names) or 'no named store'}"
            raise UnknownStoreError(f"application {channel.name!r} has no store {channel.store!r}", hint=hint)
        store = stores[channel.store]
        topic = self._topic_of(channel, store, plan["operators"][store["operator"]], state.mode == "real_time")
        has_versions = store["kind"] == "versioned" and state.mode == "real_time"
        changelog = f"{channel.name}-{channel.store}-changelog"
        text_or_schema = self._decoder.serdes(changelog)
        serdes = Serdes(
            self._serde(store["key"], SerdeContext(changelog, True), window_size(plan["operators"], store["operator"]))
            or text_or_schema[0],
            self._serde(store["value"], SerdeContext(changelog, False)) or text_or_schema[1],
        )
        mask = partial(self._decoder.masks.rows, principal, channel.name, channel.store)
        size = store.get("window_size_ms")
        encoders = {
            number: StoreEncoder(number, store["kind"], serdes, mask, size, has_versions=has_versions)
            for number in range(self._data.log.topic(topic).partitions)
        }
        key = None if channel.kind == "store" else _key_bytes(channel, serdes.key)
        feed = ("store", principal.sees_personal_fields, channel.name, channel.store)
        return Source(channel, self._partitions(feed, channel, topic, encoders, after), key)

    def _serde(self, name: str, context: SerdeContext, size_ms: int | None = None) -> Serde[Any] | None:
        """Returns the serde of a name in a recorded topology; None for one with a schema, and one of the user's."""
        around, _, rest = name.partition("<")
        if around in _AROUND and rest.endswith(">"):
            inner = self._serde(rest[:-1], context)
            return None if inner is None else _AROUND[around](inner, size_ms)
        if name.startswith("sql-"):
            return sql_serde(name, context, self._decoder.reference)
        try:
            return serde_for(name)
        except ConfigError:
            return None

    def _topic_of(
        self, channel: Channel, store: Mapping[str, Any], operator: Mapping[str, Any], has_workers: bool
    ) -> str:
        """The topic that has the changes of a store: see `Program.changelog_of`."""
        options = operator["options"]
        changelog = f"{channel.name}-{channel.store}-changelog"
        if operator["kind"] == "global-table":
            return str(options["topic"])
        if options.get("reuse_source") and not has_workers:
            return str(options["source_topic"])
        if has_workers or store.get("logged", True):
            try:
                return self._data.log.topic(changelog).name
            except UnknownTopicError:
                pass
        raise SetupError(
            f"store {channel.store!r} of application {channel.name!r} has no changelog, so its changes cannot be "
            "followed",
            hint="give the store a name, remove logging=False and store.changelogs=False, and start the application",
        )

    def _partitions(
        self,
        feed: tuple[str | bool, ...],
        channel: Channel,
        topic: str,
        encoders: Mapping[int, Encode],
        after: Mapping[str, int],
    ) -> tuple[LogSource, ...]:
        starts, ends = self._data.log.starts([topic])[topic], self._data.log.ends([topic])[topic]
        sources = []
        for number, encode in encoders.items():
            start, end = starts[number], ends[number]
            if str(number) in after:
                wanted = after[str(number)]
            elif isinstance(channel.start, int):
                wanted = channel.start
                if wanted > end:
                    raise OffsetOutOfRangeError(
                        f"topic {topic!r}, partition {number}: there is no offset {wanted} yet",
                        hint=f"the next record will have offset {end}",
                    )
            else:
                wanted = start if channel.start == "start" else end
            place = wanted if start <= wanted <= end else start if wanted < start else end
            missed = (wanted, place) if place != wanted else None
            sources.append(LogSource((*feed, topic, number), topic, number, encode, place, end, missed))
        return tuple(sources)


def _key_bytes(channel: Channel, serde: Serde[Any]) -> bytes:
    """Returns the bytes of the key of a channel.

    Raises:
        ChannelError: It is not JSON, or not of the type of the keys.
    """
    hint = 'write the key in JSON: key:shop/totals/"north", key:shop/totals/5'
    try:
        key = serde.serialize(value_of_json(parse_json(channel.key), serde))
    except SerdeError as error:
        raise ChannelError(f"the key of channel {channel.text[:80]!r}: {error.message}", hint=hint) from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ChannelError(
            f"the key of channel {channel.text[:80]!r} is not JSON of the type {serde.name}", hint=hint
        ) from None
    if key is None:
        raise ChannelError("no row has the key null", hint=hint)
    return key
