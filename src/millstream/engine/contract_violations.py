"""Handles records that violate a contract: stops the application, drops the record, or sends it to quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.records import CONTRACT_HEADER, Headers
from millstream.engine.errors import Fatal, dead_letter_headers
from millstream.errors import ContractViolationError, MillstreamError, SerdeError
from millstream.plan.contracts import SCHEMA_RULE, Contract, OnViolation, Reason, Rule, counted_as
from millstream.text.escaping import error_text, printable, shorten

if TYPE_CHECKING:
    from millstream.engine.context import Failure, TaskContext
    from millstream.engine.errors import ErrorContext
    from millstream.plan.node import Node

_SHOWN_VALUE = 1_000
_CONDITIONS: dict[Reason, str] = {"violated": "the condition is false", "null": "the condition is null"}


class Violation(Exception):  # noqa: N818  (it describes a record, and is no error of its own)
    """A record that violates a contract.

    Attributes:
        rule: The name of the rule.
        reason: Why the record violates it.
        on_violation: What happens to the record.
        cause: The exception of the condition or of the serde.
    """

    def __init__(
        self, rule: str, reason: Reason, on_violation: OnViolation, cause: BaseException | None = None
    ) -> None:
        super().__init__(rule, reason)
        self.rule = rule
        self.reason = reason
        self.on_violation = on_violation
        self.cause = cause

    @property
    def explanation(self) -> str:
        """The reason in words."""
        if self.cause is None:
            return _CONDITIONS[self.reason]
        text = self.cause.message if isinstance(self.cause, MillstreamError) else error_text(self.cause)
        return f"the condition raised {text}" if self.reason == "error" else text


def violated(rule: Rule, reason: Reason, cause: BaseException | None = None) -> Violation:
    """Returns the violation of a rule."""
    return Violation(rule.name, reason, rule.on_violation, cause)


def violation_handler(context: TaskContext, node: Node, contract: Contract, redact: Any) -> Failure:
    """Returns the function that handles violations of a contract, by the current record of the task.

    Args:
        context: The context of the task.
        node: The operator.
        contract: Its contract.
        redact: Returns the text of a value for a message, without its tagged fields.
    """

    def handle(violation: BaseException, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if not isinstance(violation, Violation):
            raise violation
        if node.name in context.silent:
            return
        failed = context.error_context(node.name, None, "processing", timestamp)
        if violation.on_violation == "fail":
            raise Fatal(_error(contract, violation, failed, redact(value))) from violation.cause
        source = context.source_record()
        if violation.on_violation == "quarantine":
            if source is None:
                failed = _itself(node, failed, key, value, headers)
            _quarantine(context, contract, violation, failed)
        _count(context, node, contract, violation, (key, value, timestamp))

    return handle


def handle_unreadable(
    context: TaskContext, node: Node, contract: Contract, failed: ErrorContext, error: BaseException
) -> None:
    """Handles a record that cannot be read, under a contract that does not fail."""
    violation = Violation(SCHEMA_RULE, "schema", contract.on_violation, error)
    if violation.on_violation == "quarantine":
        _quarantine(context, contract, violation, failed)
    _count(context, node, contract, violation, (failed.key, failed.value, failed.timestamp))


def _count(
    context: TaskContext, node: Node, contract: Contract, violation: Violation, record: tuple[Any, Any, int]
) -> None:
    reason = counted_as(contract.name, violation.rule, violation.reason, violation.on_violation)
    context.count_drop(node.name, reason, *record)


def _error(contract: Contract, violation: Violation, failed: ErrorContext, value: str) -> ContractViolationError:
    if failed.topic is None:
        record = f"task {failed.task_id}"
    else:
        record = f"topic {failed.topic}, partition {failed.partition}, offset {failed.offset}"
    return ContractViolationError(
        f"a record violates contract {contract.name!r}, rule {violation.rule!r}, in operator {failed.operator!r} "
        f"({record}): {violation.explanation}; the value is {shorten(printable(value), _SHOWN_VALUE)}",
        hint="on_violation='quarantine' of the contract sets such records aside and continues, 'drop' counts them",
    )


def _itself(node: Node, failed: ErrorContext, key: Any, value: Any, headers: Headers) -> ErrorContext:
    """Returns the description of a record without a source record, which a punctuator has made: the record itself."""
    from dataclasses import replace  # noqa: PLC0415  (rarely needed)

    try:
        data = node.key.serialize(key), node.value.serialize(value)  # type: ignore[attr-defined]
    except SerdeError as error:
        raise Fatal(
            ContractViolationError(
                f"a record that operator {node.name!r} writes violates its contract, and cannot be serialized for the "
                f"quarantine topic: {error.message}",
                hint=error.hint,
            )
        ) from error
    return replace(failed, key=data[0], value=data[1], headers=headers)


def _quarantine(context: TaskContext, contract: Contract, violation: Violation, failed: ErrorContext) -> None:
    """Writes the source record to the quarantine topic."""
    topic = contract.quarantine_topic(context.config)
    assert topic is not None
    message = f"contract {contract.name!r}, rule {violation.rule!r}: {violation.explanation}"
    error = ContractViolationError(message)
    error.__cause__ = violation.cause
    facts = {"name": contract.name, "rule": violation.rule, "reason": violation.reason}
    schema_id = _schema_id(context, failed)
    if schema_id is not None:
        facts["schema.id"] = str(schema_id)
    headers = (
        *failed.headers,
        *dead_letter_headers(failed, error, with_trace=violation.cause is not None),
        *((CONTRACT_HEADER + name, text.encode(errors="backslashreplace")) for name, text in facts.items()),
    )
    context.dead_letter(topic, failed.key, failed.value, failed.timestamp, headers)


def _schema_id(context: TaskContext, failed: ErrorContext) -> int | None:
    """Returns the id of the schema of the source record."""
    reader = None if failed.topic is None else context.reader_of(failed.topic)
    return None if reader is None else reader.value.schema_id(failed.value, failed.headers)
