"""All errors of Millstream, in one class hierarchy.

Each error has a stable ``code``, a message that describes the problem and its location, and an optional ``hint`` that
describes a remedy. Programs match on the class or on ``code``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from millstream.core.callsite import caller
from millstream.text.escaping import printable, readable


class MillstreamError(Exception):
    """The base class of all errors of Millstream.

    Attributes:
        message: The problem. It is safe to print even if it quotes a record or an exception: control characters are
            escaped, lines after the first are indented, and a very long text is shortened.
        hint: The remedy.
    """

    code: ClassVar[str] = "millstream"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = readable(message)
        self.hint = None if hint is None else readable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class ConfigError(MillstreamError):
    """A configuration key is unknown, or its value is invalid."""

    code = "config"


class TopologyError(MillstreamError):
    """A topology is invalid. Raised while the topology is built, never while it runs.

    Attributes:
        at: The line of user code with the mistake, as ``app.py:12``.
    """

    code = "topology"

    def __init__(self, message: str, *, hint: str | None = None, at: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.at = printable(at or caller())

    def __str__(self) -> str:
        return f"{self.at}: {super().__str__()}"


class TopologyWarning(UserWarning):
    """A topology is valid, but probably not intended. Issued while the topology is built."""


class InvalidNameError(TopologyError, ValueError):
    """The name of a topic, store, operator or application is not allowed."""

    code = "invalid-name"


class UnknownAttributeError(TopologyError, AttributeError):
    """A stream, a table, an application or another object has no attribute of this name."""

    code = "unknown-attribute"


class DurationError(TopologyError, ValueError):
    """A duration cannot be parsed."""

    code = "duration"


class ExpressionError(TopologyError):
    """An expression does not match the type of its input. Raised while the topology is built."""

    code = "expression"


class SqlError(MillstreamError):
    """A SQL statement is invalid.

    Attributes:
        line: The line of the mistake in the script, from 1; None if it has no place.
        column: The column of the mistake, from 1.
        excerpt: The line of the script with a mark under the place.
    """

    code = "sql"

    def __init__(self, message: str, *, hint: str | None = None, at: tuple[int, int] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line: int | None = None if at is None else at[0]
        self.column: int | None = None if at is None else at[1]
        self.excerpt: str | None = None

    def mark(self, script: str) -> SqlError:
        """Takes the excerpt from the text of the script, and returns this error."""
        lines = script.splitlines()
        if self.excerpt is None and self.line is not None and self.column is not None and self.line <= len(lines):
            start = max(0, self.column - 60)
            shown = printable(lines[self.line - 1][start : start + 100])
            self.excerpt = f"    {shown}\n    {' ' * (self.column - 1 - start)}^"
        return self

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        excerpt = "" if self.excerpt is None else f"\n{self.excerpt}"
        hint = "" if self.hint is None else f"\n  hint: {self.hint}"
        return f"{place}{self.message}{excerpt}{hint}"


class SqlSyntaxError(SqlError):
    """The text is not a statement of the dialect."""

    code = "sql-syntax"


class SqlStatementError(SqlError):
    """A statement refers to something that does not exist, has types that do not fit, or is not allowed."""

    code = "sql-statement"


class SerdeError(MillstreamError):
    """A value cannot be serialized, or bytes cannot be deserialized."""

    code = "serde"


class SerializationError(SerdeError):
    """A value cannot be serialized."""

    code = "serialization"


class DeserializationError(SerdeError):
    """Bytes cannot be deserialized."""

    code = "deserialization"


class SchemaError(MillstreamError):
    """A schema cannot be used, or the schema registry cannot be asked."""

    code = "schema"


class InvalidSchemaError(SchemaError):
    """The text is not a valid Avro, JSON or Protobuf schema, or one of its references does not exist."""

    code = "invalid-schema"


class UnknownSchemaError(SchemaError):
    """The registry has no such id, subject or version, or no such schema under a subject."""

    code = "unknown-schema"


class IncompatibleSchemaError(SchemaError):
    """A schema is not compatible with earlier versions of its subject.

    Attributes:
        problems: The reasons, each with the path of the field that breaks the compatibility.
    """

    code = "incompatible-schema"

    def __init__(self, message: str, *, hint: str | None = None, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(map(readable, problems))


class RegistryError(SchemaError):
    """A schema registry does not answer, or refuses a request; or the file of the embedded registry cannot be used.

    Attributes:
        may_pass: Whether a retry may succeed.
    """

    code = "registry"

    def __init__(self, message: str, *, hint: str | None = None, may_pass: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.may_pass = may_pass


class StateError(MillstreamError):
    """A state store does not allow an operation."""

    code = "state"


class UnknownStoreError(StateError):
    """There is no store of this name, or no batch has written to it yet."""

    code = "unknown-store"


class CorruptViewError(StateError):
    """A view of a store is damaged."""

    code = "corrupt-view"


class DamagedLocalStoreError(StateError):
    """The local page store of a task is damaged, or another worker has taken it over. The changelogs have the rows."""

    code = "damaged-local-store"


class StateConnectionError(StateError):
    """Spark's state store refused a request, or did not answer."""

    code = "state-connection"


class RunError(MillstreamError):
    """An application stopped because a record could not be read, processed or written."""

    code = "run"


class QueryError(RunError):
    """Spark stopped the query: a worker or an executor was lost, a disk was full, …"""

    code = "spark"


class ProcessingError(RunError):
    """An operator, or the user's function in it, failed on a record."""

    code = "processing"


class RecordReadError(RunError):
    """A record could not be deserialized, or its timestamp is invalid."""

    code = "record-read"


class ProductionError(RunError):
    """A record could not be written to its topic."""

    code = "production"


class ContractViolationError(RunError):
    """A record violates the contract of its topic."""

    code = "contract-violation"


class ConnectorError(RunError):
    """A connector cannot read or write its system.

    Attributes:
        may_pass: Whether a retry may succeed.
    """

    code = "connector"

    def __init__(self, message: str, *, hint: str | None = None, may_pass: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.may_pass = may_pass


class LogError(MillstreamError):
    """The log of topics could not be opened, read or written."""

    code = "log"


class CorruptLogError(LogError):
    """The data of the log is damaged."""

    code = "corrupt-log"


class LogFormatError(LogError):
    """The file is not a log, or has a format that this version of Millstream cannot read."""

    code = "log-format"


class LogFullError(LogError):
    """There is no space left for a write. None of it was written."""

    code = "log-full"


class LogBusyError(LogError):
    """Other processes held the lock of the log for too long."""

    code = "log-busy"


class BrokerError(LogError):
    """A Kafka broker does not answer, or refuses a request.

    Attributes:
        may_pass: Whether a retry may succeed.
    """

    code = "broker"
    may_pass = True


class AuthenticationError(BrokerError):
    """A Kafka broker rejects the credentials, or its certificate is not trusted."""

    code = "authentication"
    may_pass = False


class AuthorizationError(BrokerError):
    """A Kafka broker does not permit a request to the authenticated user."""

    code = "authorization"
    may_pass = False


class UnknownTopicError(LogError):
    """There is no topic of this name, or it has no such partition."""

    code = "unknown-topic"


class UnknownGroupError(LogError):
    """There is no consumer group of this name."""

    code = "unknown-group"


class TopicExistsError(LogError):
    """There is already a topic of this name."""

    code = "topic-exists"


class OffsetOutOfRangeError(LogError):
    """Retention has deleted the requested records."""

    code = "offset-out-of-range"


class RecordRefusedError(LogError):
    """A record is invalid for its topic."""

    code = "record-refused"


class FencedError(LogError):
    """Another instance of the application has taken over, and fenced this one."""

    code = "fenced"


class NonDeterministicError(LogError):
    """The replay of a published batch produced different results.

    Attributes:
        names: The topics and stores whose results differ.
    """

    code = "non-deterministic"

    def __init__(self, message: str, *, hint: str | None = None, names: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.names = names


class SetupError(MillstreamError):
    """A prerequisite of an application is missing: Java, a directory, the right checkpoint."""

    code = "setup"


class AlreadyRunningError(SetupError):
    """Another instance of the application is running."""

    code = "already-running"


class IncompatibleTopologyError(SetupError):
    """The topology has changed in a way that is incompatible with the existing state."""

    code = "incompatible-topology"


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Returns a "did you mean" hint for a misspelt word, or None if no known word is similar.

    >>> suggestion("cuonts", ["counts", "totals"])
    "did you mean 'counts'?"
    """
    import difflib  # noqa: PLC0415  (needed only for an error)

    names = list(known)
    same = [name for name in names if name.lower() == word.lower()]
    matches = same or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else None
