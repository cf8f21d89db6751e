"""`millstream sql`: tests of SQL statements."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from millstream.cli.exits import ExitCode, UsageError
from millstream.cli.options import command
from millstream.cli.printing import print_rows

sql = typer.Typer(no_args_is_help=True, help="Test SQL statements.")


@command(sql, "test", "millstream sql test tests/orders.json", "millstream sql test --filter 'late' tests/*.sql")
def run_tests(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Test files: .json or .sql.")],
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each case.")] = False,
    pattern: Annotated[
        str | None, typer.Option("--filter", metavar="REGEX", help="Run only the cases whose name contains a match.")
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop after the first case that does not pass.")
    ] = False,
) -> None:
    """Runs the cases of test files, in the forms of ksqlDB's own tests. Neither Java nor a broker is needed."""
    from millstream.sql.testing.cases import CaseFileError, read_cases
    from millstream.sql.testing.local import LocalEngine
    from millstream.sql.testing.report import ERROR, PASSED, Result, exit_code, summary
    from millstream.sql.testing.runner import run_case

    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise UsageError(f"--filter {pattern!r} is not a regular expression: {error}") from error
    results: list[Result] = []
    unreadable = False

    def report(result: Result) -> None:
        results.append(result)
        if json or result.outcome != PASSED:
            print(result.json_line() if json else result.text(), flush=True)  # noqa: T201

    for path in files:
        try:
            cases = read_cases(path)
        except CaseFileError as error:
            unreadable = True
            report(Result(str(path), path.stem, ERROR, error.message))
            continue
        for case in cases:
            if wanted.search(case.name) is None:
                continue
            report(run_case(str(path), case, LocalEngine))
            if fail_fast and results[-1].outcome != PASSED:
                break
        if fail_fast and results and results[-1].outcome != PASSED:
            break
    if not json:
        print_rows(["File", "Passed", "Failed", "Error", "Skipped", "Seconds"], summary(results), "table")
    sys.stdout.flush()
    raise typer.Exit(ExitCode.USAGE if unreadable else exit_code(results))
