"""Records with all fields, and a check of their copies."""

from __future__ import annotations

import time

from tests.kafka import independent

from millstream.core.partitioning import partition_for
from millstream.log import Log, ProducerRecord

NOW = int(time.time() * 1000)
PARTITIONS = 3
_KEYS = ["a", "bb", "ccc", "ключ", ""]
_HEADERS = (("trace", b"7"), ("empty", None), ("trace", b"\x00\xff"))


def produce_originals(log: Log) -> None:
    """Creates the topics, and writes to ``in``: keys, headers, timestamps, a tombstone, a record without a key."""
    for topic in ("in", "out"):
        log.create_topic(topic, PARTITIONS)
    log.produce("in", [ProducerRecord(key.encode(), b"v", NOW + n, _HEADERS) for n, key in enumerate(_KEYS)])
    log.produce("in", [ProducerRecord(b"gone", None, NOW), ProducerRecord(None, b"nobody", 1)])


def check_copies(servers: str) -> None:
    """Reads ``out`` by an independent consumer."""
    copies = {message.key(): message for message in independent.messages(servers, "out")}
    assert set(copies) == {*(key.encode() for key in _KEYS), b"gone", None}
    for number, key in enumerate(_KEYS):
        message = copies[key.encode()]
        assert message.value() == b"v"
        assert message.headers() == list(_HEADERS)
        assert message.timestamp()[1] == NOW + number
        assert message.partition() == partition_for(key.encode(), PARTITIONS)
    assert copies[b"gone"].value() is None
    assert not copies[b"gone"].headers()
    assert (copies[None].value(), copies[None].timestamp()[1]) == (b"nobody", 1)
