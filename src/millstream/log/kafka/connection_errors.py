"""Explains failed connections. Clients retry forever, and report causes only by a callback."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from millstream.errors import AuthenticationError, BrokerError
from millstream.log.kafka.settings import one_line, without_secrets

_CAUSES = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._RESOLVE}
_LOSSES = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
_REFUSING = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_ALERT = "SSL alert"
"""Sent by a broker that rejects the client certificate, possibly after the handshake."""
_PATIENCE = 2.0
_RECENT = 60.0
_AROUND = re.compile(r"^(?:\S+/(?:bootstrap|\d+): )?(.*?)(?: \(after \d+ms in state \w+\))?(?: \(\+\d+ .*\))?$")
_NO_ANSWER = "is it running, and is that its address?"


class ConnectionErrors:
    """The connection errors that the clients of a cluster have reported.

    Args:
        settings: The settings of the clients. Secrets among them are hidden in messages.

    Attributes:
        losses: The number of reports that a connection was lost or could not be made.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._last: KafkaError | None = None
        self._when = 0.0
        self._down: float | None = None
        self.losses = 0

    def note(self, error: KafkaError) -> None:
        """Records an error of a client. Called by any thread that polls the client."""
        if error.code() in _LOSSES:
            self.losses += 1
        if error.code() in _CAUSES:
            self._last, self._when = error, time.monotonic()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and self._down is None:
            self._down = time.monotonic()

    def forget(self) -> None:
        """Discards earlier errors, because the cluster has answered."""
        self._last = self._down = None

    def final(self) -> BrokerError | None:
        """Returns an error if all brokers refuse the first connection, so that waiting does not help.

        A silently closed connection may be that of a broker that is stopping; then the next one is refused.
        """
        if self._down is None:
            return None
        if self._last is not None and _is_refusal(self._last):
            return self._refusal(self._last)
        if time.monotonic() - self._down > _PATIENCE and (self._last is None or "SSL" in self._last.str()):
            return self._mismatch()
        return None

    def explain(self, what: str) -> BrokerError:
        """Returns the error for a request without a response. Old errors are ignored: clients report no success."""
        last = self._last if time.monotonic() - self._when < _RECENT else None
        if last is not None and _is_refusal(last):
            return self._refusal(last)
        reason = f" ({self._text(last)})" if last is not None else ""
        return BrokerError(f"{what}: the broker at {self._servers} does not answer{reason}", hint=_NO_ANSWER)

    @property
    def _servers(self) -> str:
        return str(self._settings["bootstrap.servers"])

    def _refusal(self, error: KafkaError) -> BrokerError:
        text = self._text(error)
        if error.code() != KafkaError._AUTHENTICATION:
            if "certificate verify failed" in text:
                return AuthenticationError(
                    f"the certificate of the broker at {self._servers} is not trusted",
                    hint="ssl.ca.location names a PEM file with its CA; the certificate must be issued for that host",
                )
            return AuthenticationError(
                f"TLS with the broker at {self._servers} failed: {text.rpartition('SSL routines::')[2]}",
                hint="does it require a client certificate (ssl.certificate.location and ssl.key.location)?",
            )
        if "current SASL state" in text:
            return AuthenticationError(f"the broker at {self._servers} does not use SASL", hint=self._protocol())
        user = self._settings.get("sasl.username")
        who = f"user {user!r}" if user else "this client"
        hint = "see sasl.mechanism" if "mechanism handshake" in text else "see sasl.username and sasl.password"
        return AuthenticationError(f"the broker at {self._servers} rejects {who}: {text}", hint=hint)

    def _mismatch(self) -> BrokerError:
        cause = "it seems not to use TLS" if self._last is not None else "it may require TLS or SASL"
        return BrokerError(f"the broker at {self._servers} closes each connection: {cause}", hint=self._protocol())

    def _protocol(self) -> str:
        protocol = self._settings.get("security.protocol", "plaintext")
        return f"see security.protocol, which is {str(protocol).upper()}"

    def _text(self, error: KafkaError) -> str:
        """Returns the message of an error without the address and time that the client adds."""
        match = _AROUND.match(one_line(error.str()))
        text = match.group(1) if match is not None else one_line(error.str())
        return without_secrets(text.removeprefix("SASL authentication error: "), self._settings)


def _is_refusal(error: KafkaError) -> bool:
    return error.code() in _REFUSING or _ALERT in error.str()
