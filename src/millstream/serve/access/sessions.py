"""Sessions of browsers: a one-time code or a token is exchanged for a cookie."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from dataclasses import replace

from millstream.serve.access.roles import Principal, Role

COOKIE = "millstream_session"
_SECONDS = 12 * 3600.0
_CODE_SECONDS = 3600.0
_MOST = 1000


class Sessions:
    """The sessions and the one-time codes of a server. They end with the process.

    >>> sessions = Sessions()
    >>> code = sessions.new_code()
    >>> cookie = sessions.exchange(code)
    >>> sessions.principal(cookie).role.name, sessions.exchange(code)
    ('ADMIN', None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: dict[bytes, float] = {}
        self._sessions: dict[bytes, Principal] = {}

    def new_code(self) -> str:
        """Returns a code that can be exchanged once, within an hour, for a session of an admin."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._codes[_hash(code)] = time.time() + _CODE_SECONDS
        return code

    def exchange(self, code: str) -> str | None:
        """Returns the cookie of a new session; None if the code is unknown, expired or used."""
        with self._lock:
            until = self._codes.pop(_hash(code), 0.0)
        return self.open(Principal("console", Role.ADMIN)) if time.time() < until else None

    def open(self, principal: Principal) -> str:
        """Opens a session for the holder of a token, and returns its cookie."""
        cookie = secrets.token_urlsafe(32)
        until = min(time.time() + _SECONDS, principal.expires or float("inf"))
        with self._lock:
            now = time.time()
            self._sessions = {key: each for key, each in self._sessions.items() if (each.expires or now) > now}
            while len(self._sessions) >= _MOST:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_hash(cookie)] = replace(principal, expires=until)
        return cookie

    def principal(self, cookie: str) -> Principal | None:
        """Returns the principal of a session; None if there is none, or it has expired.

        The session of a token ends when the token is revoked, which the caller checks.
        """
        principal = self._sessions.get(_hash(cookie))
        return None if principal is None or (principal.expires or 0.0) <= time.time() else principal

    def close(self, cookie: str) -> None:
        """Ends a session."""
        with self._lock:
            self._sessions.pop(_hash(cookie), None)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
