"""The release of Kafka of a broker, derived from the request versions that it supports.

The client queries them on each connection, and reports them in its debug log only.
"""

from __future__ import annotations

import logging
import re

from millstream.log.kafka.clients import Clients

_REQUEST = re.compile(r"ApiKey \S+ \((?P<key>\d+)\) Versions \d+\.\.(?P<version>\d+)")
_PRODUCE, _INIT_PRODUCER_ID, _END_TXN, _DESCRIBE_CLUSTER, _DESCRIBE_TRANSACTIONS = 0, 22, 26, 60, 65
TRANSACTIONS = (_INIT_PRODUCER_ID, _END_TXN)
_SINCE = (
    (_PRODUCE, 13, "4.1"),
    (_PRODUCE, 12, "4.0"),
    (_PRODUCE, 11, "3.8"),
    (_PRODUCE, 10, "3.7"),
    (_DESCRIBE_TRANSACTIONS, 0, "3.0"),
    (_DESCRIBE_CLUSTER, 0, "2.8"),
)
"""The request, its version, and the release that introduced it."""

Requests = dict[int, int]
"""The highest supported version of each request, by its API key."""


class _RequestVersions(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.requests: Requests = {}

    def emit(self, record: logging.LogRecord) -> None:
        match = _REQUEST.search(record.getMessage())
        if match is not None:
            key, version = int(match["key"]), int(match["version"])
            self.requests[key] = min(version, self.requests.get(key, version))  # that of the oldest broker


def requests_of(clients: Clients) -> Requests:
    """Returns the request versions that the brokers support."""
    versions, logger = _RequestVersions(), logging.getLogger("millstream.kafka.release")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(versions)
    try:
        admin = clients.admin_with_debug_log(logger)
        admin.list_topics(timeout=clients.timeout)
        admin.poll(0)
    finally:
        logger.removeHandler(versions)
    return versions.requests


def release_of(requests: Requests) -> str | None:
    """Returns the least release that supports these requests; None if it is older than all listed ones."""
    return next((release for key, version, release in _SINCE if requests.get(key, -1) >= version), None)
