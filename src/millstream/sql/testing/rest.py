"""Runs cases that send statements and queries through ksqlDB's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.errors import SqlError
from millstream.sql.syntax import parse_script
from millstream.sql.syntax.tree import Statement
from millstream.sql.testing.cases import Case
from millstream.sql.testing.checks import CheckError, check_outputs
from millstream.sql.testing.engine import Engine, RequestError
from millstream.sql.testing.feeding import encoded
from millstream.sql.testing.matching import difference, message_matches

_STARTS_WITH = "|starts_with"


def run_rest(case: Case, engine: Engine) -> bool | None:
    """Runs a case; returns whether the message of the expected error matches, None without one."""
    admin = [text for text in case.statements if not text.startswith("SELECT ")]
    # The suite's broker creates a topic on its first use.
    named = [record.topic for record in (*case.inputs, *case.outputs)]
    engine.create_topics(case.topics, _parsed(admin), named)
    queries = [text for text in case.statements if text.startswith("SELECT ")]
    responses: list[Any] = []

    def inputs() -> None:
        for record in encoded(engine, case.inputs):
            engine.process(record)

    waits = case.wait_for_push_query and bool(queries)
    try:
        if admin:
            responses += engine.request_statements("\n".join(admin), case.properties)
        if not waits:
            inputs()
        for number, text in enumerate(queries):
            started = inputs if waits and number == 0 else _nothing
            responses.append(engine.request_query(text, case.properties, started=started))
        if case.proto_format:
            responses += [engine.request_query(text, case.properties, proto=True) for text in queries]
    except RequestError as error:
        return _expect(case, error)
    if case.expected_error is not None:
        raise CheckError(f"all requests succeed, expected {case.expected_error.type}: {case.expected_error.message}")
    _check_responses(case, responses)
    check_outputs(engine, case.outputs, exact=True, clock_is_free=not case.inputs, prefix_only=True)
    return None


def _nothing() -> None:
    """Happens when a query that needs no inputs has started."""


def _parsed(statements: list[str]) -> list[Statement]:
    """Returns the statements, none of them if the request will be refused."""
    try:
        return parse_script("\n".join(statements))
    except SqlError:
        return []


def _expect(case: Case, error: RequestError) -> bool:
    expected = case.expected_error
    if expected is None:
        raise error
    earlier = [text.strip() for text in case.statements[:-1]]
    if error.statement in earlier and error.statement != case.statements[-1].strip():
        raise CheckError(f"a statement before the last one fails: {error.statement}: {error.message}")
    if expected.status is not None and error.status != expected.status:
        raise CheckError(f"the status is {error.status}, expected {expected.status}: {error.message}")
    kind = expected.type.rpartition("$")[2]
    # A KsqlStatementErrorMessage is a KsqlErrorMessage.
    if kind and kind not in (error.type, "KsqlErrorMessage"):
        raise CheckError(f"the error is a {error.type}, expected {kind}: {error.message}")
    return message_matches(expected.message, error)


def _check_responses(case: Case, responses: list[Any]) -> None:
    if len(responses) < len(case.responses):
        raise CheckError(f"there are {len(responses)} responses, expected {len(case.responses)}")
    for number, (expected, actual) in enumerate(zip(case.responses, responses, strict=False)):
        place = f"response {number + 1}"
        statement = case.statements[number] if number < len(case.statements) else ""
        if "admin" in expected:
            problem = contains(_with_statement(expected["admin"], statement), actual, place)
        else:
            rows = expected.get("query", expected.get("queryProto"))
            problem = rows_difference(_with_statement(rows, statement), actual, place, ordered=case.verify_order)
        if problem is not None:
            raise CheckError(problem)


def _with_statement(expected: Any, statement: str) -> Any:
    match expected:
        case str():
            return expected.replace("{STATEMENT}", statement)
        case dict():
            return {name: _with_statement(value, statement) for name, value in expected.items()}
        case list():
            return [_with_statement(value, statement) for value in expected]
    return expected


def contains(expected: Any, actual: Any, path: str) -> str | None:
    """Returns the first member of an expected object that a response lacks or has otherwise, None if there is none.

    A member ``name|starts_with`` asks for a prefix.
    """
    if isinstance(expected, dict) and isinstance(actual, Mapping):
        for name, value in expected.items():
            plain = name.removesuffix(_STARTS_WITH)
            if plain not in actual:
                return f"{path} has no {plain}"
            if plain != name:
                if not str(actual[plain]).startswith(str(value)):
                    return f"{path}.{plain} is {actual[plain]!r}, expected to start with {value!r}"
                continue
            problem = contains(value, actual[plain], f"{path}.{plain}")
            if problem is not None:
                return problem
        return None
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        problems = (contains(left, right, path) for left, right in zip(expected, actual, strict=True))
        return next((problem for problem in problems if problem is not None), None)
    return difference(expected, actual, path=path)


def rows_difference(expected: list[Any], actual: list[Any], path: str, *, ordered: bool) -> str | None:
    """Returns the first difference between rows; without an order, each row needs a row of its own."""
    if len(expected) != len(actual):
        return f"{path} has {len(actual)} rows, expected {len(expected)}: {actual}"
    if ordered:
        pairs = zip(expected, actual, strict=True)
        return next((problem for left, right in pairs if (problem := contains(left, right, path)) is not None), None)
    rest = list(actual)
    for row in expected:
        match = next((other for other in rest if contains(row, other, path) is None), None)
        if match is None:
            return f"{path} has no row {row}; it has {rest}"
        rest.remove(match)
    return None
