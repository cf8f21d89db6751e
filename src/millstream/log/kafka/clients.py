"""The clients of a cluster: made when they are needed, in each process anew, with one set of settings."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from millstream.errors import AuthorizationError, BrokerError, LogError
from millstream.log.kafka.connection_errors import Troubles
from millstream.log.kafka.settings import check_names, refused, without_secrets

T = TypeVar("T")

_POLL = 0.05
_QUIET = {"log_level": 0}  # what matters comes as an error, where it can be told as one
_ALL = 7
"""The log level of a client that tells everything."""

_LOGGER = logging.getLogger("millstream.kafka")
_LOGGER.addHandler(logging.NullHandler())  # else a client would write to stderr what we tell anyway
_SILENT = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}
_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe and DescribeConfigs on the topic; Read to read, Write to write, "
    "and Create to make it",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the consumer group, whose name is the application's",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on the transactional id, which is the application's name, "
    "or begins with millstream- where there is no application",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Create on the cluster, to make topics",
}
"""What a user lacks, by the code of the refusal."""


class Counts:
    """How many partitions topics had when they were last listed."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._when = -math.inf

    def set(self, counts: dict[str, int]) -> dict[str, int]:
        """Takes note of them."""
        self._counts, self._when = counts, time.monotonic()
        return counts

    def get(self, age: float) -> dict[str, int]:
        """Returns them, if that was less than so many seconds ago; else nothing."""
        return self._counts if time.monotonic() - self._when < age else {}


class Clients:
    """Makes clients of one cluster.

    Args:
        settings: What all of them need: ``bootstrap.servers``, and ``security.*``, ``ssl.*`` and ``sasl.*``.
        timeout: Seconds after which a request is given up.

    Raises:
        ConfigError: A setting has a name of Java's clients, which ours do not know.
    """

    def __init__(self, settings: Mapping[str, Any], timeout: float = 30.0) -> None:
        check_names(settings)
        self._settings = {**_QUIET, **settings}
        self.timeout = timeout
        self._lock = threading.Lock()
        self._admin: tuple[int, AdminClient] | None = None
        self._troubles = Troubles(self._settings)
        self.counts = Counts()

    @property
    def servers(self) -> str:
        """Where the cluster is."""
        return str(self._settings["bootstrap.servers"])

    @property
    def admin(self) -> AdminClient:
        """The client for topics and groups. The first use of it finds out whether the cluster lets us in.

        Raises:
            BrokerError: It does not, or does not answer.
        """
        return self.connect(self.timeout)

    def connect(self, seconds: float) -> AdminClient:
        """The same, if the cluster answers in so many seconds."""
        with self._lock:
            if self._admin is None or self._admin[0] != os.getpid():  # threads do not outlive a fork
                self._troubles.forget()
                made = self._made(AdminClient, {})
                self._connect(made, seconds)
                self._admin = os.getpid(), made
            self._admin[1].poll(0)  # it tells its troubles only if it is asked
            return self._admin[1]

    def admin_that_tells(self, logger: logging.Logger) -> AdminClient:
        """A client for a moment, whose logger is told what it finds out about the brokers."""
        return self._made(AdminClient, {"debug": "feature", "log_level": _ALL}, logger)

    def producer(self, transactional_id: str, settings: Mapping[str, Any]) -> Producer:
        """A producer whose transactions have this name. Each with the same name shuts those before it out."""
        return self._made(Producer, {**settings, "transactional.id": transactional_id})

    def plain_producer(self) -> Producer:
        """A producer without transactions."""
        return self._made(Producer, {})

    def consumer(self, group: str, settings: Mapping[str, Any]) -> Consumer:
        """A consumer that sees what is committed only, commits nothing itself, and says where a partition ends."""
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        return self._made(Consumer, {**own, **settings})

    def result(self, future: Future[T], what: str) -> T:
        """The result of a request.

        Raises:
            LogError: The request failed; the message says what it was for.
        """
        try:
            return future.result(self.timeout)
        except KafkaException as error:
            raise self.failure(error, what) from error
        except TimeoutError:
            raise self.silence(what) from None

    def failure(self, error: KafkaException, what: str) -> LogError:
        """What a failed request means."""
        cause = code_of(error)
        if cause.code() in _SILENT:
            return self.silence(what)
        rights = _RIGHTS.get(cause.code())
        text = without_secrets(f"{what}: {cause.str()}", self._settings)
        if rights is not None:
            user = self._settings.get("sasl.username")
            who = f"user {user!r}" if user else "the user"
            return AuthorizationError(text, hint=f"{who} needs more rights: {rights}")
        return BrokerError(text)

    def silence(self, what: str) -> BrokerError:
        """What it means that a request had no answer: the last trouble of a connection, if there was one."""
        if self._admin is not None and self._admin[0] == os.getpid():
            self._admin[1].poll(0)
        return self._troubles.explain(what)

    def _made(self, kind: Callable[..., T], settings: Mapping[str, Any], logger: logging.Logger = _LOGGER) -> T:
        given = {**self._settings, **settings}
        try:
            return kind({**given, "error_cb": self._troubles.note}, logger=logger)
        except (KafkaException, ValueError, TypeError) as error:
            raise refused(error, given) from None

    def _connect(self, admin: AdminClient, seconds: float) -> None:
        """Waits until the cluster has answered. Without this, a wrong password would be a request without an answer."""
        answer = admin.describe_cluster(request_timeout=seconds)
        deadline = time.monotonic() + seconds
        while True:
            try:
                answer.result(_POLL)
                break
            except TimeoutError:
                pass
            except KafkaException as error:
                admin.poll(0)
                raise self.failure(error, "the cluster cannot be reached") from error
            admin.poll(0)
            known = self._troubles.final()
            if known is not None:
                raise known
            if time.monotonic() > deadline:
                raise self._troubles.explain("the cluster cannot be reached")
        admin.poll(0)
        self._troubles.forget()


def code_of(error: KafkaException) -> KafkaError:
    """The error that an exception is about."""
    cause: KafkaError = error.args[0]
    return cause
