"""The clients of a cluster: created on demand, in each process, with common settings."""

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
from millstream.log.kafka.connection_errors import ConnectionErrors
from millstream.log.kafka.settings import check_names, refused, without_secrets

T = TypeVar("T")

_POLL = 0.05
_CLOSE_SECONDS = 5.0
_DEFAULTS = {
    "log_level": 0,  # errors are raised or reported by the error callback
    "reconnect.backoff.max.ms": 1000,  # the client's own default, ten seconds, would follow each outage of a broker
}
_DEBUG = 7
"""The log level of a client that logs everything."""

_LOGGER = logging.getLogger("millstream.kafka")
_LOGGER.addHandler(logging.NullHandler())  # else a client would write errors to stderr that are raised anyway
_SILENT = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}
_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe and DescribeConfigs on the topic; Read to read, Write to write, "
    "and Create to create it",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the consumer group, whose name is the application's",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on the transactional id, which is the application's name, "
    "or starts with millstream- outside of applications",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Create on the cluster, to create topics",
}
"""The missing rights, by error code."""


class Counts:
    """The numbers of partitions of topics, as last listed."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._when = -math.inf

    def set(self, counts: dict[str, int]) -> dict[str, int]:
        """Stores the counts."""
        self._counts, self._when = counts, time.monotonic()
        return counts

    def get(self, age: float) -> dict[str, int]:
        """Returns the counts if they are less than `age` seconds old, else nothing."""
        return self._counts if time.monotonic() - self._when < age else {}


class Clients:
    """Creates clients of one cluster.

    Args:
        settings: The settings of all clients: ``bootstrap.servers``, and ``security.*``, ``ssl.*`` and ``sasl.*``.
        timeout: Seconds until a request times out.

    Raises:
        ConfigError: A setting has a name of Java's clients, which librdkafka does not have.
    """

    def __init__(self, settings: Mapping[str, Any], timeout: float = 30.0) -> None:
        check_names(settings)
        self._settings = {**_DEFAULTS, **settings}
        self.timeout = timeout
        self._lock = threading.Lock()
        self._admin: tuple[int, AdminClient] | None = None
        self._errors = ConnectionErrors(self._settings)
        self.counts = Counts()

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return str(self._settings["bootstrap.servers"])

    @property
    def losses(self) -> int:
        """The number of times that a client has reported the loss of a connection."""
        return self._errors.losses

    @property
    def admin(self) -> AdminClient:
        """The client for topics and groups. The first use connects to the cluster.

        Raises:
            BrokerError: The cluster refuses the connection, or does not answer.
        """
        return self.connect(self.timeout)

    def connect(self, seconds: float) -> AdminClient:
        """Returns the client for topics and groups, if the cluster answers within so many seconds."""
        with self._lock:
            if self._admin is None or self._admin[0] != os.getpid():  # threads do not survive a fork
                self._errors.forget()
                admin = self._create(AdminClient, {})
                self._connect(admin, seconds)
                self._admin = os.getpid(), admin
            self._admin[1].poll(0)  # the client reports errors only when it is polled
            return self._admin[1]

    def answers(self, seconds: float) -> bool:
        """Returns whether the cluster answers a request within so many seconds."""
        try:
            self.connect(seconds).describe_cluster(request_timeout=seconds).result(seconds)
        except (KafkaException, LogError, TimeoutError):
            return False
        return True

    def admin_with_debug_log(self, logger: logging.Logger) -> AdminClient:
        """Returns a client for topics and groups whose debug log goes to a logger."""
        return self._create(AdminClient, {"debug": "feature", "log_level": _DEBUG}, logger)

    def producer(self, transactional_id: str, settings: Mapping[str, Any]) -> Producer:
        """Returns a transactional producer. It fences earlier ones with the same id."""
        return self._create(Producer, {**settings, "transactional.id": transactional_id})

    def plain_producer(self, settings: Mapping[str, Any] | None = None) -> Producer:
        """Returns a producer without transactions."""
        return self._create(Producer, settings or {})

    def consumer(self, group: str, settings: Mapping[str, Any]) -> Consumer:
        """Returns a consumer that reads committed records only, commits no offsets, and reports ends of partitions."""
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        return self._create(Consumer, {**own, **settings})

    def result(self, future: Future[T], what: str) -> T:
        """Returns the result of a request.

        Raises:
            LogError: The request failed; the message starts with `what`.
        """
        try:
            return self.answer(future, what)
        except KafkaException as error:
            raise self.failure(error, what) from error

    def answer(self, future: Future[T], what: str) -> T:
        """Returns the result of a request, for callers that distinguish the errors of the cluster.

        Raises:
            KafkaException: The request failed.
            BrokerError: There is no response; the message starts with `what`.
        """
        try:
            return future.result(self.timeout)
        except TimeoutError:  # it may come before the client's own error, whose timeout is the same
            raise self.silence(what) from None

    def failure(self, error: KafkaException, what: str) -> LogError:
        """Returns the error for a failed request."""
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
        """Returns the error for a request without a response, with the last connection error if there is one."""
        if self._admin is not None and self._admin[0] == os.getpid():
            self._admin[1].poll(0)
        return self._errors.explain(what)

    def _create(self, kind: Callable[..., T], settings: Mapping[str, Any], logger: logging.Logger = _LOGGER) -> T:
        merged = {**self._settings, **settings}
        try:
            return kind({**merged, "error_cb": self._errors.note}, logger=logger)
        except (KafkaException, ValueError, TypeError) as error:
            raise refused(error, merged) from None

    def _connect(self, admin: AdminClient, seconds: float) -> None:
        """Waits until the cluster has answered. Otherwise, a wrong password would become a timeout of a request."""
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
            refusal = self._errors.final()
            if refusal is not None:
                raise refusal
            if time.monotonic() > deadline:
                raise self._errors.explain("the cluster cannot be reached")
        admin.poll(0)
        self._errors.forget()


def code_of(error: KafkaException) -> KafkaError:
    """Returns the error of an exception."""
    cause: KafkaError = error.args[0]
    return cause


def close_consumer(consumer: Consumer) -> None:
    """Closes a consumer. Now and then the client does not return from it: then the consumer is left alone."""
    closing = threading.Thread(target=consumer.close, name="millstream-close", daemon=True)
    closing.start()
    closing.join(_CLOSE_SECONDS)
