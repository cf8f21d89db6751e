"""`millstream sql`: the SQL shell, and tests of SQL statements."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from millstream.cli.exits import CommandError, ExitCode, UsageError
from millstream.cli.options import Data, Settings, cluster_settings, command, group_command
from millstream.cli.printing import print_note, print_rows
from millstream.cli.user_input import to_pairs

sql = typer.Typer(no_args_is_help=False)


@group_command(
    sql,
    "millstream sql",
    'millstream sql -e "SHOW QUERIES;"',
    "millstream sql -f shop.sql --output json",
    "echo 'SELECT * FROM per_minute;' | millstream sql --output csv",
)
def shell(
    context: typer.Context,
    execute: Annotated[
        list[str] | None,
        typer.Option("--execute", "-e", metavar="STATEMENT", help="Carry out these statements, and end; repeatable."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", metavar="FILE", help="Carry out the statements of a file, and end; repeatable."),
    ] = None,
    output: Annotated[Literal["table", "json", "csv"], typer.Option("--output", help="The form of results.")] = "table",
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="The name of the catalog: each has its own streams, tables and queries."
        ),
    ] = "sql",
    config: Settings = None,
    data: Data = None,
) -> None:
    """The SQL shell: defines streams and tables, runs queries in this process, and shows their results.

    CREATE … AS SELECT and INSERT INTO … SELECT start a persistent query at once, without Spark and Java. It runs while
    the shell runs, and continues where it was at the next start. In a terminal, the shell has a prompt; otherwise, it
    reads statements from stdin. With -e, -f and stdin it ends after the last statement, or the first one that fails.
    """
    if context.invoked_subcommand is not None:
        return
    settings: dict[str, Any] = {**cluster_settings(), **to_pairs(config)}
    if data is not None:
        settings["state.dir"] = data
    scripts: list[tuple[str, Path | None]] = [(text, None) for text in execute or ()]
    scripts += [(_read(path), path.parent) for path in file or ()]
    interactive = not scripts and sys.stdin.isatty()
    if not scripts and not interactive:
        scripts = [(sys.stdin.read(), None)]
    if interactive:
        _check_prompt()
    raise typer.Exit(_run_shell(settings, name, output, scripts, interactive=interactive))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise CommandError(f"{path} is not a text file in UTF-8: {error}") from error


def _check_prompt() -> None:
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        raise CommandError(
            "the prompt of the shell needs the package prompt_toolkit",
            hint='pip install "millstream[sql]"; -e, -f and stdin work without it',
        ) from None


def _run_shell(
    settings: dict[str, Any],
    name: str,
    output: Literal["table", "json", "csv"],
    scripts: list[tuple[str, Path | None]],
    *,
    interactive: bool,
) -> int:
    import signal
    from contextlib import ExitStack

    from millstream.core.data_directory import data_directory
    from millstream.sql.live.server import SqlServer
    from millstream.sql.shell.rendering import Renderer
    from millstream.sql.shell.session import ShellSession

    renderer = Renderer(output, sys.stdout, sys.stderr)
    with ExitStack() as opened:
        server = opened.enter_context(SqlServer(settings, name=name))
        for statement, problem in server.problems:
            print_note(f"{problem}: this statement of an earlier shell has no effect any more: {statement}")
        if interactive:
            from millstream.sql.shell.prompt import run_prompt, spinner

            session = ShellSession(server.handler, renderer, spinner)
            run_prompt(server, session, Path(data_directory(settings.get("state.dir"))))
            return ExitCode.OK
        session = ShellSession(server.handler, renderer)
        before = signal.signal(signal.SIGINT, lambda *_: session.interrupted.set())
        opened.callback(signal.signal, signal.SIGINT, before)
        for text, folder in scripts:
            if not session.run(text, folder):
                return ExitCode.ERROR
            if session.interrupted.is_set():
                return ExitCode.INTERRUPTED
    return ExitCode.OK


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
