"""Runs cases on an engine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from millstream.errors import MillstreamError, SqlError, SqlStatementError, SqlSyntaxError
from millstream.sql.syntax import parse_script
from millstream.sql.syntax.preparation import PreparationError
from millstream.sql.testing.cases import AnyCase, Case, ExpectedError
from millstream.sql.testing.checks import CheckError, check_outputs, check_post
from millstream.sql.testing.engine import Engine, EngineFactory, UnsupportedError
from millstream.sql.testing.feeding import feed
from millstream.sql.testing.matching import message_matches
from millstream.sql.testing.report import ERROR, FAILED, PASSED, SKIPPED, Result
from millstream.sql.testing.rest import run_rest
from millstream.sql.testing.sql_files import SqlCase
from millstream.sql.testing.sql_runner import run_sql
from millstream.text.escaping import error_text


def run_case(file: str, case: AnyCase, factory: EngineFactory) -> Result:
    """Runs a case on a fresh engine. No exception of the case leaves this function."""
    start = time.perf_counter()
    outcome, message, matches = PASSED, "", None
    try:
        if isinstance(case, SqlCase):
            matches = run_sql(case, factory({}))
        elif case.rest:
            matches = run_rest(case, factory(case.properties))
        else:
            matches = _run(case, factory(case.properties))
    except CheckError as error:
        outcome, message = FAILED, str(error)
    except UnsupportedError as error:
        outcome, message = SKIPPED, error.message
    except MillstreamError as error:
        outcome, message = FAILED, f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001  (an error of one case must not end the run)
        outcome, message = ERROR, f"{error_text(error)}{_place(error)}"
    if matches is None and outcome != PASSED and _negative(case):
        matches = False
    return Result(file, case.name, outcome, message, time.perf_counter() - start, matches)


def _place(error: BaseException) -> str:
    """The last line of Millstream that an unexpected exception passed."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        place = f" ({file.rpartition('millstream/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _negative(case: AnyCase) -> bool:
    return case.negative if isinstance(case, SqlCase) else case.expected_error is not None


# ----- cases of QTT --------------------------------------------------------------------------------------------------


def _run(case: Case, engine: Engine) -> bool | None:
    """Runs a case; returns whether the message of the expected error matches, None without one."""
    expected = case.expected_error
    script = "\n".join(case.statements)
    try:
        statements = parse_script(script)
    except SqlError as error:
        return _expect(expected, error, last=True)
    engine.create_topics(case.topics, statements, [record.topic for record in (*case.inputs, *case.outputs)])
    for number, statement in enumerate(statements, 1):
        try:
            engine.execute(statement)
        except SqlError as error:
            return _expect(expected, error.mark(script), last=number == len(statements))
    if expected is not None and not case.inputs:
        raise CheckError(f"all statements succeed, expected {expected.type}: {expected.message}")
    if not engine.queries:
        raise CheckError("the statements create no persistent query")
    try:
        feed(engine, case.inputs)
    except CheckError:
        raise
    except MillstreamError as error:
        if expected is None or isinstance(error, UnsupportedError):
            raise
        return message_matches(expected.message, error)
    if expected is not None:
        raise CheckError(f"all records are processed, expected {expected.type}: {expected.message}")
    check_outputs(engine, case.outputs, exact=_exact(case.properties), clock_is_free=not case.inputs)
    check_post(engine, case.post)
    return None


def _exact(properties: Mapping[str, Any]) -> bool:
    return str(properties.get("use.exact.numeric.comparison", "true")).lower() != "false"


def _expect(expected: ExpectedError | None, error: SqlError, *, last: bool) -> bool:
    """Checks that an error is the expected one; returns whether its message is."""
    if expected is None or not last:
        raise error
    # ksqlDB's ParseFailedException is a KsqlStatementException, too, where it fails to prepare what it has parsed.
    fits = SqlSyntaxError | PreparationError if expected.is_syntax else SqlStatementError
    if not isinstance(error, fits):
        kind = "a syntax error" if isinstance(error, SqlSyntaxError) else "not a syntax error"
        raise CheckError(f"the error is {kind}, expected {expected.type}: {error}")
    return message_matches(expected.message, error)
