"""Why connections fail. Clients try again for ever, and say why only beside the request that is waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from millstream.errors import AuthenticationError, BrokerError
from millstream.log.kafka.settings import one_line, without_secrets

_TELLING = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._RESOLVE}
_REFUSING = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_ALERT = "SSL alert"
"""What a broker says that does not like our certificate; it may say so after the handshake."""
_PATIENCE = 2.0
_RECENT = 60.0
_AROUND = re.compile(r"^(?:\S+/(?:bootstrap|\d+): )?(.*?)(?: \(after \d+ms in state \w+\))?(?: \(\+\d+ .*\))?$")
_NO_ANSWER = "is it running, and is that its address?"


class Troubles:
    """What the clients of a cluster have said about their connections.

    Args:
        settings: Theirs; secrets among them are never told.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._last: KafkaError | None = None
        self._when = 0.0
        self._down: float | None = None

    def note(self, error: KafkaError) -> None:
        """Takes what a client says. It is called from whichever thread serves the client."""
        if error.code() in _TELLING:
            self._last, self._when = error, time.monotonic()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and self._down is None:
            self._down = time.monotonic()

    def forget(self) -> None:
        """The cluster has answered: what was before is over."""
        self._last = self._down = None

    def final(self) -> BrokerError | None:
        """An error, if it is known of a first connection that waiting does not help: no broker lets us in.

        A connection that is closed without a word may be that of a broker which is going; then the next one is refused.
        """
        if self._down is None:
            return None
        if self._last is not None and _is_refusal(self._last):
            return self._refusal(self._last)
        if time.monotonic() - self._down > _PATIENCE and (self._last is None or "SSL" in self._last.str()):
            return self._mismatch()
        return None

    def explain(self, what: str) -> BrokerError:
        """An error for a request without an answer. What was long ago is over: who is let in again does not say so."""
        last = self._last if time.monotonic() - self._when < _RECENT else None
        if last is not None and _is_refusal(last):
            return self._refusal(last)
        reason = f" ({self._told(last)})" if last is not None else ""
        return BrokerError(f"{what}: the broker at {self._servers} does not answer{reason}", hint=_NO_ANSWER)

    @property
    def _servers(self) -> str:
        return str(self._settings["bootstrap.servers"])

    def _refusal(self, error: KafkaError) -> BrokerError:
        told = self._told(error)
        if error.code() != KafkaError._AUTHENTICATION:
            if "certificate verify failed" in told:
                return AuthenticationError(
                    f"the certificate of the broker at {self._servers} is not trusted",
                    hint="ssl.ca.location names a PEM file with its CA; and it must be made out to that host",
                )
            return AuthenticationError(
                f"there is no TLS with the broker at {self._servers}: {told.rpartition('SSL routines::')[2]}",
                hint="does it want a certificate of ours (ssl.certificate.location and ssl.key.location)?",
            )
        if "current SASL state" in told:
            return AuthenticationError(f"the broker at {self._servers} does not want SASL there", hint=self._protocol())
        user = self._settings.get("sasl.username")
        who = f"user {user!r}" if user else "us"
        hint = "see sasl.mechanism" if "mechanism handshake" in told else "see sasl.username and sasl.password"
        return AuthenticationError(f"the broker at {self._servers} does not let {who} in: {told}", hint=hint)

    def _mismatch(self) -> BrokerError:
        wanted = "it seems to have no TLS there" if self._last is not None else "it may want TLS or SASL there"
        return BrokerError(f"the broker at {self._servers} closes each connection: {wanted}", hint=self._protocol())

    def _protocol(self) -> str:
        given = self._settings.get("security.protocol", "plaintext")
        return f"see security.protocol, which is {str(given).upper()}"

    def _told(self, error: KafkaError) -> str:
        """What an error says, without the place and the time that are put around it."""
        found = _AROUND.match(one_line(error.str()))
        text = found.group(1) if found is not None else one_line(error.str())
        return without_secrets(text.removeprefix("SASL authentication error: "), self._settings)


def _is_refusal(error: KafkaError) -> bool:
    return error.code() in _REFUSING or _ALERT in error.str()
