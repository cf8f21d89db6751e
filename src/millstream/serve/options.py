"""The options of a server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError

DEFAULT_ADDRESS = "127.0.0.1:8088"


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of a server.

    Attributes:
        host: The address on which it listens.
        port: The port; 0: a free one.
        data: The data directory; None: that of the configuration.
        config: The configuration of the log: a cluster's settings.
        application: The only application that it serves; None: all of them.
        is_open: Requests need no token.
        certificate: The file with the certificate for TLS.
        key: The file with the key of the certificate.
        insecure: Listen on an address other than loopback without TLS.
        allowed_hosts: Further names under which it is reached.
        most_streams: The largest number of open event streams.
        heartbeat_seconds: After how long an event stream without events sends a comment, and its client is checked.
        sql: Whether it runs SQL.
        alerts: The file with the configuration of alerts; None: that of the profile, or of `millstream.toml`.
    """

    host: str = "127.0.0.1"
    port: int = 8088
    data: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    application: str | None = None
    is_open: bool = False
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    allowed_hosts: tuple[str, ...] = ()
    most_streams: int = 100
    heartbeat_seconds: float = 15.0
    sql: bool = True
    alerts: Path | str | None = None

    def __post_init__(self) -> None:
        """Checks that the options are safe together.

        Raises:
            ConfigError: They are not.
        """
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("TLS needs a certificate and its key", hint="give --tls-certificate and --tls-key")
        if is_loopback(self.host):
            return
        if self.is_open:
            raise ConfigError(
                f"the server cannot listen on {self.host} without tokens",
                hint="remove --auth off, or listen on 127.0.0.1",
            )
        if self.certificate is None and not self.insecure:
            raise ConfigError(
                f"the server cannot listen on {self.host} without TLS: tokens could be read on the way",
                hint="give --tls-certificate and --tls-key; or --insecure, if a proxy in front of the server has TLS",
            )

    @property
    def scheme(self) -> str:
        """The scheme of its addresses."""
        return "http" if self.certificate is None else "https"

    def hosts(self, port: int) -> set[str]:
        """The values that the header Host may have.

        Args:
            port: The port on which it listens.
        """
        names = {self.host, *self.allowed_hosts}
        if is_loopback(self.host):
            names |= {"127.0.0.1", "localhost", "::1"}
        hosts = {f"[{name}]" if ":" in name else name for name in names}
        default = 80 if self.certificate is None else 443
        return {f"{host}:{port}" for host in hosts} | (hosts if port == default or self.allowed_hosts else set())


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Returns host and port of an address.

    >>> parse_address("127.0.0.1:8088", "serve"), parse_address("8089", "serve"), parse_address("[::1]:80", "serve")
    (('127.0.0.1', 8088), ('127.0.0.1', 8089), ('::1', 80))

    Raises:
        ConfigError: The text is not an address.
    """
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ConfigError(f"{option}: {text!r} is not an address", hint=f"write host:port, such as {DEFAULT_ADDRESS}")
    return host, int(port)
