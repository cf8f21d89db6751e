"""Every error that Millstream raises, in one tree.

Each error has a stable ``code``, a message that says what happened and where, and, where there is one, a
``hint`` that says what to do about it. Programs match on the class or on ``code``; people read the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from millstream.core.callsite import caller
from millstream.text.escaping import printable, readable


class MillstreamError(Exception):
    """The root of all errors raised by Millstream.

    Attributes:
        message: What happened. It is safe to show, whatever record or exception it quotes: control characters are
            written as escapes, lines after the first are indented, and a very long text is shortened.
        hint: What to do about it.
    """

    code: ClassVar[str] = "millstream"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = readable(message)
        self.hint = None if hint is None else readable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class ConfigError(MillstreamError):
    """A configuration key or value that cannot be used."""

    code = "config"


class TopologyError(MillstreamError):
    """A topology that cannot run. It is raised while the topology is built, never when it runs.

    Attributes:
        at: The user's line that made the mistake, as ``app.py:12``.
    """

    code = "topology"

    def __init__(self, message: str, *, hint: str | None = None, at: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.at = printable(at or caller())

    def __str__(self) -> str:
        return f"{self.at}: {super().__str__()}"


class TopologyWarning(UserWarning):
    """A topology that can run, but hardly does what its author wants. It is issued while the topology is built."""


class InvalidNameError(TopologyError, ValueError):
    """A topic, store, operator or application name that is not allowed."""

    code = "invalid-name"


class UnknownAttributeError(TopologyError, AttributeError):
    """A stream, a table, an application or another object has no operator or attribute of that name."""

    code = "unknown-attribute"


class DurationError(TopologyError, ValueError):
    """A duration that cannot be read."""

    code = "duration"


class ExpressionError(TopologyError):
    """An expression that does not fit the data it is applied to, found when the topology is built."""

    code = "expression"


class SerdeError(MillstreamError):
    """A value that a serde cannot turn into bytes, or bytes that it cannot turn into a value."""

    code = "serde"


class SerializationError(SerdeError):
    """A value that its serde cannot turn into bytes."""

    code = "serialization"


class DeserializationError(SerdeError):
    """Bytes that their serde cannot turn into a value."""

    code = "deserialization"


class StateError(MillstreamError):
    """A state store was used in a way it does not allow."""

    code = "state"


class UnknownStoreError(StateError):
    """There is no store of that name, or it is so new that no batch has written to it."""

    code = "unknown-store"


class CorruptViewError(StateError):
    """A view of a store is damaged."""

    code = "corrupt-view"


class StateConnectionError(StateError):
    """Spark's state store refused a call, or did not answer it."""

    code = "state-connection"


class RunError(MillstreamError):
    """An application stopped because a record could not be read, processed or written."""

    code = "run"


class QueryError(RunError):
    """Spark stopped the query: a worker or a host was lost, a disk was full, …"""

    code = "spark"


class ProcessingError(RunError):
    """An operator, or the user's function in it, failed on a record."""

    code = "processing"


class RecordReadError(RunError):
    """A record could not be deserialized, or its timestamp is not valid."""

    code = "record-read"


class ProductionError(RunError):
    """A record could not be written to its topic."""

    code = "production"


class LogError(MillstreamError):
    """The log of topics could not be opened, read or written."""

    code = "log"


class CorruptLogError(LogError):
    """What the log holds is damaged."""

    code = "corrupt-log"


class LogFormatError(LogError):
    """The file is no log, or one that this version of Millstream cannot read."""

    code = "log-format"


class LogFullError(LogError):
    """There is no room for what was to be written. Nothing of it was."""

    code = "log-full"


class LogBusyError(LogError):
    """Other processes kept the log locked for too long."""

    code = "log-busy"


class BrokerError(LogError):
    """A Kafka broker does not answer, or refuses what it is asked.

    Attributes:
        may_pass: Whether the same may be allowed or answered a moment later.
    """

    code = "broker"
    may_pass = True


class AuthenticationError(BrokerError):
    """A Kafka broker does not accept who we say that we are, or we do not trust its certificate."""

    code = "authentication"
    may_pass = False


class AuthorizationError(BrokerError):
    """A Kafka broker knows who we are, and does not allow what it is asked."""

    code = "authorization"
    may_pass = False


class UnknownTopicError(LogError):
    """There is no topic of that name, or it has no such partition."""

    code = "unknown-topic"


class UnknownGroupError(LogError):
    """There is no consumer group of that name."""

    code = "unknown-group"


class TopicExistsError(LogError):
    """There is a topic of that name already."""

    code = "topic-exists"


class OffsetOutOfRangeError(LogError):
    """Records are asked for that retention has deleted."""

    code = "offset-out-of-range"


class RecordRefusedError(LogError):
    """A record cannot be written to its topic as it is."""

    code = "record-refused"


class FencedError(LogError):
    """Another instance of the application has taken over."""

    code = "fenced"


class NonDeterministicError(LogError):
    """A batch that was published came again with other results.

    Attributes:
        names: The names under which the results differ.
    """

    code = "non-deterministic"

    def __init__(self, message: str, *, hint: str | None = None, names: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.names = names


class SetupError(MillstreamError):
    """Something that an application needs is not there: a Java, a free directory, the right checkpoint."""

    code = "setup"


class AlreadyRunningError(SetupError):
    """Another instance of the application is running."""

    code = "already-running"


class IncompatibleTopologyError(SetupError):
    """The topology has changed so that it cannot go on with the state that there is."""

    code = "incompatible-topology"


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Returns a "did you mean" sentence for a misspelt word, or None if nothing is near.

    >>> suggestion("cuonts", ["counts", "totals"])
    "did you mean 'counts'?"
    """
    import difflib  # noqa: PLC0415  (only a mistake needs it)

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None
