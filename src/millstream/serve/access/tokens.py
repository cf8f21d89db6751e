"""Access tokens: created on the command line, kept as hashes in the data directory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from millstream.core.data_directory import check_directory
from millstream.core.names import check_name
from millstream.errors import ConfigError, SetupError
from millstream.serve.access.roles import Principal, Role

PREFIX = "ms_"
_TEXT = re.compile(r"ms_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_LONGEST = 100 * 366 * 86400.0
_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept: without its secret.

    Attributes:
        id: Its public part.
        name: The name that the audit log shows.
        role: The name of its role.
        digest: SHA-256 of its secret, which has 256 random bits.
        created: When it was created, in milliseconds.
        expires: When it expires, in milliseconds; None: never.
        stores: Patterns of ``application/store`` that it may read; all if there are none.
    """

    id: str
    name: str
    role: str
    digest: str
    created: int
    expires: int | None = None
    stores: list[str] = []

    @property
    def is_expired(self) -> bool:
        """Whether it is not valid any more."""
        return self.expires is not None and self.expires <= time.time() * 1000


class Tokens:
    """The tokens of a data directory.

    Another process may change them at any time: each check compares the file with the one that was read.

    >>> from tempfile import mkdtemp
    >>> tokens = Tokens(Path(mkdtemp()))
    >>> text = tokens.create("grafana", Role.VIEWER)
    >>> tokens.principal(text).role.name, tokens.principal("ms_0_x")
    ('VIEWER', None)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "access"
        self._file = self._directory / "tokens.json"
        self._read: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def list(self) -> list[Token]:
        """Returns the tokens, in the order of their creation."""
        self._load()
        return sorted(self._tokens.values(), key=lambda token: token.created)

    def create(self, name: str, role: Role, *, stores: tuple[str, ...] = (), seconds: float | None = None) -> str:
        """Creates a token, and returns its text, which is not kept.

        Args:
            name: Its name.
            role: Its role.
            stores: Patterns of ``application/store`` that it may read; all if there are none.
            seconds: How long it is valid; None: until it is revoked.

        Raises:
            ConfigError: A token has this name, or the duration is not one.
        """
        check_name(name, "token")
        if seconds is not None and not 0 < seconds < _LONGEST:
            raise ConfigError(f"a token cannot be valid for {seconds:g} s", hint="more than 0, and up to 100 years")
        secret = secrets.token_urlsafe(32)
        now = int(time.time() * 1000)
        with self._changing():
            if any(token.name == name for token in self._tokens.values()):
                raise ConfigError(f"there is a token {name!r}", hint=f"revoke it: millstream tokens revoke {name}")
            token = Token(
                id=secrets.token_hex(4),
                name=name,
                role=role.name.lower(),
                digest=_digest(secret),
                created=now,
                expires=None if seconds is None else now + int(seconds * 1000),
                stores=[*stores],
            )
            self._tokens[token.id] = token
        return f"{PREFIX}{token.id}_{secret}"

    def revoke(self, name: str) -> None:
        """Removes a token by its name or id.

        Raises:
            ConfigError: There is none.
        """
        with self._changing():
            revoked = [token for token in self._tokens.values() if name in {token.name, token.id}]
            if not revoked:
                raise ConfigError(f"there is no token {name!r}", hint="millstream tokens list shows the tokens")
            for token in revoked:
                del self._tokens[token.id]

    def principal(self, text: str) -> Principal | None:
        """Returns the principal of a token; None if the token is not valid.

        Raises:
            SetupError: The file of the tokens cannot be used.
        """
        match = _TEXT.fullmatch(text)
        self._load()
        token = None if match is None else self._tokens.get(match[1])
        # A token that does not exist takes as long as one with another secret.
        is_equal = hmac.compare_digest(_digest(match[2] if match else ""), token.digest if token else _NOBODY)
        if token is None or not is_equal or token.is_expired:
            return None
        expires = None if token.expires is None else token.expires / 1000
        return Principal(token.name, Role.named(token.role), tuple(token.stores), expires, token.id)

    def has(self, id: str) -> bool:
        """Whether there is a token with this id, which has not expired.

        Raises:
            SetupError: The file of the tokens cannot be used.
        """
        self._load()
        token = self._tokens.get(id)
        return token is not None and not token.is_expired

    def _load(self) -> None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            self._tokens, self._read = {}, None
            return
        if status.st_mode & 0o077:
            raise SetupError(f"{self._file} can be read by other users", hint=f"chmod 600 {self._file}")
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        if version != self._read:
            try:
                tokens = msgspec.json.decode(self._file.read_bytes(), type=list[Token])
                for token in tokens:
                    Role.named(token.role)
            except (msgspec.MsgspecError, ConfigError) as error:
                hint = "restore the file, or delete it and create the tokens again"
                raise SetupError(f"{self._file} is damaged: {error}", hint=hint) from None
            except OSError as error:
                raise SetupError(f"{self._file} cannot be read: {error.strerror}") from None
            self._tokens = {token.id: token for token in tokens}
            self._read = version

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Holds the lock of the file, and writes the tokens at the end."""
        check_directory(self._directory.parent, create=True)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(self._directory / "lock", _NEW, 0o600), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._load()
            yield
            new = self._directory / "tokens.new"
            new.unlink(missing_ok=True)  # of a process that was killed
            descriptor = os.open(new, _NEW | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode([*self._tokens.values()]), indent=1))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
            self._read = None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_NOBODY = _digest(secrets.token_urlsafe(32))
