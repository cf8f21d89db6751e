"""Checks records under a contract, one by one and in chunks, and masks tagged fields."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from millstream.core.records import Headers
from millstream.engine.chunks import Bulk, Chunk
from millstream.engine.contract_violations import Violation, violated, violation_handler
from millstream.engine.errors import FAILURES, check_interrupt
from millstream.errors import SerdeError
from millstream.expr import Expr
from millstream.plan.contracts import NULL_RULE, SCHEMA_RULE, Contract, Mask, contract_of, mask_key
from millstream.serde.api import reader

if TYPE_CHECKING:
    from millstream.engine.compile import Process
    from millstream.engine.context import Failure, TaskContext
    from millstream.plan.node import Node
    from millstream.plan.sources import GlobalTable
    from millstream.serde import Serde

Check: TypeAlias = Callable[[Any, Any, int, Headers], Violation | None]
"""Returns the first violation of a record; None if it obeys the contract."""


def check_of(contract: Contract) -> Check:
    """Returns the function that checks a record under a contract."""
    rules = [(rule, rule.condition.on_record()) for rule in contract.rules]
    null = None if contract.allows_null else Violation(NULL_RULE, "null", contract.on_violation)

    def check(key: Any, value: Any, timestamp: int, headers: Headers) -> Violation | None:
        if value is None:
            return null
        for rule, holds in rules:
            try:
                result = holds(key, value, timestamp, headers)
                if result is True:
                    continue
                if result is None:
                    return violated(rule, "null")
                if not result:
                    return violated(rule, "violated")
            except FAILURES as error:
                check_interrupt(error)
                return violated(rule, "error", error)
        return None

    return check


def checked(node: Node, context: TaskContext, forward: Process) -> Process:
    """Returns a process that forwards the records that obey the contract of a node, and handles the others."""
    contract = contract_of(node)
    if contract is None or (not contract.rules and contract.allows_null):
        return forward
    check, handle = check_of(contract), violations_of(node, contract, context)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        violation = check(key, value, timestamp, headers)
        if violation is None:
            forward(key, value, timestamp, headers)
        else:
            handle(violation, key, value, timestamp, headers)

    return process


def checked_in_bulk(node: Node, context: TaskContext, below: Bulk | None) -> Bulk | None:
    """Returns the bulk form of `checked`; None if the difference to single records could be observed.

    Functions are called once for each record, in order, so that no other operator of the chunk may call one.
    """
    contract = contract_of(node)
    if contract is None or below is None or (not contract.rules and contract.allows_null):
        return below
    calls = any(not isinstance(rule.condition.target, Expr) for rule in contract.rules)
    if calls and (below.calls or not below.copies):
        return None
    check, handle = check_of(contract), violations_of(node, contract, context)
    conditions, forbids_null = [rule.condition.on_record() for rule in contract.rules], not contract.allows_null

    def take(chunk: Chunk) -> None:
        if calls or (forbids_null and None in chunk.values) or not _all_hold(conditions, chunk):
            chunk = _obeying(chunk, check, handle)
        if len(chunk):
            below.take(chunk)

    return Bulk(take, calls=calls or below.calls, copies=below.copies)


def _all_hold(conditions: Sequence[Callable[..., Any]], chunk: Chunk) -> bool:
    """Whether expressions are true for all records. If not, or if one raises, records are checked one by one."""
    columns = (chunk.keys, chunk.values, chunk.timestamps, chunk.headers or [()] * len(chunk))
    try:
        return all(result is True for holds in conditions for result in map(holds, *columns))
    except FAILURES as error:
        check_interrupt(error)
        return False


def _obeying(chunk: Chunk, check: Check, handle: Failure) -> Chunk:
    """Returns the records that obey a contract, up to the first one that stops the application."""
    headers = chunk.headers or [()] * len(chunk)
    selected: list[bool] = []
    for record in zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True):
        violation = check(*record)
        selected.append(violation is None)
        if violation is not None:
            chunk.fail(len(selected) - 1, handle, violation)
            if violation.on_violation == "fail":
                break
    return chunk if len(selected) == len(chunk) and all(selected) else chunk.where(selected)


def obeys(table: GlobalTable) -> Callable[[bytes | None, bytes | None, int, Headers], bool]:
    """Returns whether a record, serialized, changes a global table: it can be read, and obeys the contract."""
    assert table.contract is not None
    check, key_of, value_of = check_of(table.contract), reader(table.key), reader(table.value)

    def holds(key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> bool:
        try:
            return check(key_of(key, headers), value_of(value, headers), timestamp, headers) is None
        except SerdeError:
            return False

    return holds


def violations_of(node: Node, contract: Contract, context: TaskContext) -> Failure:
    """Returns the function that handles violations of the contract of a node."""
    return violation_handler(context, node, contract, _redaction(contract, node.value))  # type: ignore[attr-defined]


def write_failure(node: Node, context: TaskContext) -> Failure:
    """Returns the handler of records that cannot be written: their contract, or the production handler."""
    contract = contract_of(node)
    usual = context.failure(node, phase="production")
    if contract is None or contract.on_violation == "fail":
        return usual
    handle, on_violation = violations_of(node, contract, context), contract.on_violation

    def failed(error: BaseException, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if context.stops(error):
            usual(error, key, value, timestamp, headers)
        else:
            handle(Violation(SCHEMA_RULE, "schema", on_violation, error), key, value, timestamp, headers)

    return failed


# ----- tags ----------------------------------------------------------------------------------------------------------


def mask_of(node: Node, context: TaskContext) -> Callable[[Any], Any] | None:
    """Returns the function that masks the values which a sink writes; None if it has no masks.

    Raises:
        ConfigError: The configuration lacks the key of a mask.
    """
    contract = contract_of(node)
    if contract is None or not contract.masks:
        return None
    from millstream.schemas.tags import fields_of, replacing  # noqa: PLC0415  (only masks need it)

    replacements = {mask.tag: _replacement(mask, contract, context) for mask in contract.masks}
    return replacing(fields_of(node.value, contract.tags), replacements)  # type: ignore[attr-defined]


def _replacement(mask: Mask, contract: Contract, context: TaskContext) -> Callable[[Any], Any]:
    if mask.key is None:
        constant = mask.constant
        return lambda _value: constant
    keyed = hmac.new(mask_key(mask, context.config, contract.name), digestmod=hashlib.sha256)

    def digest(value: Any) -> str | bytes:
        hashed = keyed.copy()
        if isinstance(value, bytes):
            hashed.update(value)
            return hashed.digest()
        hashed.update(str(value).encode(errors="surrogatepass"))
        return hashed.hexdigest()

    return digest


def _redaction(contract: Contract, serde: Serde[Any]) -> Callable[[Any], str]:
    """Returns the function that makes the text of a value for an error, without the values of tagged fields."""

    def text(value: Any) -> str:
        try:
            from millstream.schemas.tags import fields_of, replacing, tagged_fields  # noqa: PLC0415  (rarely needed)

            fields = fields_of(serde, contract.tags)
            tags = {tag for _path, field in tagged_fields(fields) for tag in field.tags}
            redact = replacing(fields, dict.fromkeys(tags, lambda _value: "…"))
            return repr(value if redact is None else redact(value))
        except FAILURES as error:
            check_interrupt(error)
            return f"a {type(value).__name__}"

    return text
