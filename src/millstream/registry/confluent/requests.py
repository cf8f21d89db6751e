"""Sends requests to a registry: waits while it is away, repeats what failed inside it, and translates errors."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from millstream.errors import MillstreamError
from millstream.registry.confluent.client import make_client
from millstream.registry.confluent.failures import PassingError, is_failure_of_client, translate

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

R = TypeVar("R")
_MS = 1000
_REPORT_SECONDS = 10.0
_logger = logging.getLogger("millstream.registry")


class Requests:
    """Sends requests to a registry, from any thread.

    Args:
        config: The configuration, with ``schema.registry.url``.
        report: Receives a message while a request waits for the registry.
        make: Makes a client.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        report: Callable[[str], None] | None = None,
        make: Callable[[Mapping[str, Any]], Any] = make_client,
    ) -> None:
        self.place = str(config["schema.registry.url"])
        self._config = config
        self._report = report or _logger.warning
        self._make = make
        self._timeout = config["schema.registry.api.timeout.ms"] / _MS
        self._retries = config["schema.registry.max.retries"]
        self._first_delay = config["schema.registry.retries.wait.ms"] / _MS
        self._longest_delay = config["schema.registry.retries.max.wait.ms"] / _MS
        self._lock = threading.Lock()
        self._client: Any = make(config)
        self._process = os.getpid()

    def send(self, request: Callable[[SchemaRegistryClient], R], what: str, *, retry: bool = True) -> R:
        """Sends a request, and returns its result.

        Args:
            request: Calls a method of the client.
            what: What the request is for, in an error: ``schema 7``, ``subject 'orders-value'``.
            retry: Whether to wait for a registry that is away, and to repeat requests that failed inside it.

        Raises:
            SchemaError: The registry refuses it.
            RegistryError: The registry is away, or its answer makes no sense.
        """
        started = time.monotonic()
        reported = started - _REPORT_SECONDS
        delay, failures = self._first_delay, 0
        while True:
            client = self._current_client()
            try:
                return request(client)
            except MillstreamError:
                raise
            except Exception as error:
                if not is_failure_of_client(error):
                    raise
                failure = translate(error, what, self.place)
            waited = time.monotonic() - started
            failures += 1
            if not retry or not isinstance(failure, PassingError):
                raise failure
            if waited + delay > self._timeout if failure.is_away else failures > self._retries:
                raise failure.after(waited, failures)
            if failure.is_away and time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                self._report(
                    f"waiting for the schema registry at {self.place} "
                    f"({waited:.0f} of at most {self._timeout:.0f} s): {failure.reason}"
                )
            time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311  (so that many processes do not ask at once)
            delay = min(2 * delay, self._longest_delay)

    def close(self) -> None:
        """Closes the client."""
        with self._lock:
            if self._process == os.getpid():
                self._client.close()
                provider = self._client._rest_client.bearer_field_provider
                if hasattr(provider, "client"):
                    provider.client.close()  # of the OAuth server, which the client leaves open

    def _current_client(self) -> Any:
        """Returns the client of this process: connections that a fork has copied must not be used by both sides."""
        with self._lock:
            if self._process != os.getpid():
                self._client, self._process = self._make(self._config), os.getpid()
            self._client.clear_caches()  # the registry has caches of its own, which deletions clear
            return self._client
