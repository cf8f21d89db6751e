"""Decides which statements a sender may execute. Every way to SQL over HTTP asks here, before it executes anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from millstream.serve.access.roles import Principal, Role
from millstream.serve.ksql.codes import FORBIDDEN
from millstream.serve.operations.masking import Mask
from millstream.sql.catalog.sources import DataSource
from millstream.sql.requests.effects import effect_of
from millstream.sql.requests.errors import RequestError
from millstream.sql.syntax import tree

_MOST_WAIT_MS = 5_000


def role_of(statement: tree.Statement) -> Role:
    """Returns the role that a statement requires.

    >>> from millstream.sql.syntax import parse_statement
    >>> for text in ("SHOW TABLES;", "PAUSE ALL;", "TERMINATE ALL;", "INSERT INTO s VALUES (1);", "DROP STREAM s;"):
    ...     print(role_of(parse_statement(text)).name)
    VIEWER
    OPERATOR
    ADMIN
    OPERATOR
    ADMIN
    """
    if isinstance(statement, tree.Terminate):
        return Role.OPERATOR if statement.action in {"PAUSE", "RESUME"} else Role.ADMIN
    return {"reads": Role.VIEWER, "inserts": Role.OPERATOR}.get(effect_of(statement), Role.ADMIN)


class Sender:
    """The sender of a request, as it permits statements.

    Args:
        principal: Who it is.

    Attributes:
        changes: The statements that it has sent and that change something, for the audit log: without values.
    """

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.changes: list[str] = []

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Sender:
        """Returns the sender that `facts` has described."""
        return cls(Principal(facts["name"], Role(facts["role"]), tuple(facts["stores"])))

    @staticmethod
    def facts(principal: Principal) -> dict[str, Any]:
        """Describes a sender for the SQL process."""
        return {"name": principal.name, "role": int(principal.role), "stores": list(principal.stores)}

    def permit(self, statements: Sequence[tree.Statement]) -> None:
        """Checks all statements of a request.

        Raises:
            RequestError: It may not execute one of them.
        """
        self.changes = [_noted(statement) for statement in statements if role_of(statement) > Role.VIEWER]
        for statement in statements:
            self.require(role_of(statement), _title(statement), statement.text)
            if self.principal.stores and isinstance(statement, tree.Print | tree.CreateAs | tree.InsertInto):
                raise _forbidden(
                    f"{_title(statement)} reads topics, and the token may read some stores only", statement
                )
            waits = isinstance(statement, tree.AssertTopic | tree.AssertSchema)
            if waits and (getattr(statement, "timeout", None) or 0) > _MOST_WAIT_MS:
                raise RequestError("a request waits for 5 SECONDS at most", statement=statement.text)

    def require(self, role: Role, what: str, statement: str | None = None) -> None:
        """Checks the role of the sender.

        Raises:
            RequestError: It is not sufficient.
        """
        has = self.principal.role
        if has < role:
            message = f"{what} needs the role {role.name.lower()}, and the token has the role {has.name.lower()}"
            raise RequestError(message, error_code=FORBIDDEN, statement=statement)

    def permit_rows(self, source: DataSource, application: str | None, statement: tree.Select) -> None:
        """Checks that the sender may read the rows of a query.

        Args:
            source: What the query reads.
            application: The application that keeps the rows of the table; None: the query reads topics.
            statement: The query.

        Raises:
            RequestError: It may not.
        """
        if not self.principal.stores:
            return
        if application is None:
            raise _forbidden("the query reads topics, and the token may read some stores only", statement)
        if not self.principal.may_read(application, source.name):
            raise _forbidden(f"the token may not read the store {application}/{source.name}", statement)

    def permit_fields(self, mask: Mask, statement: tree.Statement, columns: Collection[str] | None = None) -> None:
        """Checks that the sender may see the fields of a topic.

        Args:
            mask: What viewers do not see of the topic.
            statement: The statement that reads it.
            columns: The columns that it can read; None: it reads whole records.

        Raises:
            RequestError: The topic has personal fields, and the role does not include them.
        """
        if self.principal.sees_personal_fields or not mask.hides(columns):
            return
        self.require(Role.OPERATOR, f"{_title(statement)} of a topic with personal fields", statement.text)

    def owns(self, owner: str) -> bool:
        """Whether it may end a query of this owner."""
        return self.principal.role >= Role.ADMIN or self.principal.name == owner


def _title(statement: tree.Statement) -> str:
    words = statement.text.split(None, 2)[:2]
    return " ".join(words).upper().rstrip(";")[:60]


def _noted(statement: tree.Statement) -> str:
    """A statement in the audit log: what it does, and the name of what it does it to."""
    named = (getattr(statement, name, None) for name in ("name", "target", "query"))
    return f"{_title(statement)}: {next((name for name in named if isinstance(name, str)), 'all')}"


def _forbidden(message: str, statement: tree.Statement) -> RequestError:
    return RequestError(message, error_code=FORBIDDEN, statement=statement.text)
