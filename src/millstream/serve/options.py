"""The options of a server."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError

_EVERY = {"0.0.0.0", "::"}  # noqa: S104  (addresses that stand for all of a machine; they need TLS)
_PORT = re.compile(r":[0-9]+$")


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
        ready_max_lag: The lag of an application, in records, up to which `/readyz` answers that it is ready, unless the
            request has a bound of its own; None: any.
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
    ready_max_lag: int | None = None
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

        An allowed host is accepted with the port of the server, and without a port, as behind a proxy; one that was
        given with a port, only with that.

        Args:
            port: The port on which it listens.
        """
        own = {self.host}
        if is_loopback(self.host) or self.host in _EVERY:
            own |= {"127.0.0.1", "localhost", "::1"}
        hosts = {f"{_bracketed(name)}:{port}" for name in own}
        if port == (80 if self.certificate is None else 443):
            hosts |= {_bracketed(name) for name in own}
        for name in self.allowed_hosts:
            host = _bracketed(name)
            hosts |= {host} if _PORT.search(host) else {host, f"{host}:{port}"}
        return hosts

    def origins(self, port: int) -> set[str]:
        """The values that the header Origin may have. Behind a proxy with TLS, browsers speak TLS with the proxy.

        Args:
            port: The port on which it listens.
        """
        schemes = {self.scheme, "https"} if self.insecure else {self.scheme}
        return {f"{scheme}://{host}" for scheme in schemes for host in self.hosts(port)}

    def address(self, port: int) -> str:
        """An address under which a browser on this machine reaches the server; else one of its allowed hosts.

        Args:
            port: The port on which it listens.
        """
        host = "127.0.0.1" if self.host in _EVERY else self.host
        return f"{self.scheme}://{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    """An address of IPv6 in brackets, and any other host as it is."""
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


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
