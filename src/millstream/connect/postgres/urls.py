"""URLs of databases."""

from __future__ import annotations

import getpass
from urllib.parse import parse_qsl, unquote, urlsplit

from millstream.config.secrets import Secret
from millstream.connect.postgres.client import Server
from millstream.errors import ConfigError

_HINT = "write postgresql://user@host:5432/database"
_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")


def server_of(url: str, *, user: str | None = None, password: Secret | None = None) -> Server:
    """Returns the database of a URL.

    Args:
        url: The URL: ``postgresql://user:password@host:port/database?sslmode=require``, also with ``jdbc:`` in front.
        user: The user, in place of the one in the URL.
        password: The password, in place of the one in the URL.

    >>> print(server_of("jdbc:postgresql://db.example.com/shop?user=anna"))
    shop at db.example.com:5432

    Raises:
        ConfigError: It is not such a URL.
    """
    # No message shows the URL: it may contain a password.
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        port = parts.port or 5432
    except ValueError:
        raise ConfigError("the URL of the database has no valid host and port", hint=_HINT) from None
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ConfigError("the URL of the database does not begin with postgresql://", hint=_HINT)
    options = dict(parse_qsl(parts.query))
    unknown = sorted(options.keys() - {"user", "password", "host", *_TLS})
    if unknown:
        known = ", ".join(_TLS)
        raise ConfigError(f"the URL of the database has an unknown parameter, {unknown[0]!r}", hint=f"known: {known}")
    own = parts.password and unquote(parts.password)
    secret = own or options.get("password")
    return Server(
        host=options.get("host") or parts.hostname or "localhost",
        port=port,
        database=unquote(parts.path.lstrip("/")) or "postgres",
        user=user or (parts.username and unquote(parts.username)) or options.get("user") or getpass.getuser(),
        password=password or (Secret(secret) if secret else None),
        tls={name: options[name] for name in _TLS if name in options},
    )
