"""Which release of Kafka a broker is of: it does not say, but which requests it takes.

The client asks each broker that it connects to for them; the one place where it tells what it hears is its debug log.
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
"""The request, the version of it, and the release that brought it."""

Requests = dict[int, int]
"""The highest version of each request that is taken, by its number."""


class _Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.requests: Requests = {}

    def emit(self, record: logging.LogRecord) -> None:
        found = _REQUEST.search(record.getMessage())
        if found is not None:
            key, version = int(found["key"]), int(found["version"])
            self.requests[key] = min(version, self.requests.get(key, version))  # of several brokers, the oldest


def requests_of(clients: Clients) -> Requests:
    """Asks the brokers which requests they take."""
    told, logger = _Told(), logging.getLogger("millstream.kafka.release")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(told)
    try:
        admin = clients.admin_that_tells(logger)
        admin.list_topics(timeout=clients.timeout)
        admin.poll(0)
    finally:
        logger.removeHandler(told)
    return told.requests


def release_of(requests: Requests) -> str | None:
    """The release that a broker is at least of; None if it is older than all that are known."""
    return next((release for key, version, release in _SINCE if requests.get(key, -1) >= version), None)
