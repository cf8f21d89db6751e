"""The roles of the senders of requests."""

from __future__ import annotations

import enum
import fnmatch
from dataclasses import dataclass

from millstream.errors import ConfigError


class Role(enum.IntEnum):
    """The rights of a sender. Each role includes the roles before it.

    A scraper reads metrics only. A viewer reads, except for personal fields. An operator also reads personal fields,
    pauses and resumes applications, writes records and replays dead letters. An admin also stops applications, and
    creates and drops streams and tables.
    """

    SCRAPER = 1
    VIEWER = 2
    OPERATOR = 3
    ADMIN = 4

    @classmethod
    def named(cls, name: str) -> Role:
        """Returns the role of a name.

        Raises:
            ConfigError: There is none.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            names = ", ".join(role.name.lower() for role in cls)
            raise ConfigError(f"there is no role {name!r}", hint=f"the roles are: {names}") from None


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request.

    Attributes:
        name: The name of its token or session, for the audit log.
        role: Its role.
        stores: Patterns of ``application/store`` that it may read; all if there are none.
        expires: The time at which its token or session expires, in seconds; None: never.
        token: The id of its token; None for the session of a one-time code, and without access control.
    """

    name: str
    role: Role
    stores: tuple[str, ...] = ()
    expires: float | None = None
    token: str | None = None

    @property
    def sees_personal_fields(self) -> bool:
        """Whether personal fields are shown to it."""
        return self.role >= Role.OPERATOR

    def may_read(self, application: str, store: str) -> bool:
        """Whether it may read a store.

        >>> viewer = Principal("grafana", Role.VIEWER, ("shop/*",))
        >>> viewer.may_read("shop", "sales"), viewer.may_read("bank", "accounts")
        (True, False)
        """
        return not self.stores or any(fnmatch.fnmatchcase(f"{application}/{store}", each) for each in self.stores)
