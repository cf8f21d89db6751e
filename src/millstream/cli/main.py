"""Assembles the command line, and turns the outcome of a command into an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from millstream.cli import (
    applications,
    bench,
    connect,
    consume,
    dev,
    dlq,
    doctor,
    groups,
    produce,
    schemas,
    serve,
    sql,
    stores,
    topics,
)
from millstream.cli.exits import CommandError, ExitCode, UsageError
from millstream.cli.options import command
from millstream.cli.printing import print_error, print_note
from millstream.errors import IncompatibleSchemaError, IncompatibleTopologyError, MillstreamError
from millstream.text.escaping import error_text, trace_text

cli = typer.Typer(
    name="millstream",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Kafka Streams' programming model for Python, run by Apache Spark: topics, records, applications.",
)
_LOG, _APPLICATIONS, _MACHINE = "Topics and records", "Applications", "This machine"
cli.add_typer(topics.topics, name="topics", rich_help_panel=_LOG)
command(cli, "produce", *produce.EXAMPLES, panel=_LOG)(produce.produce)
command(cli, "consume", *consume.EXAMPLES, panel=_LOG)(consume.consume)
cli.add_typer(groups.groups, name="groups", rich_help_panel=_LOG)
cli.add_typer(dlq.dlq, name="dlq", rich_help_panel=_LOG)
cli.add_typer(schemas.schemas, name="schemas", rich_help_panel=_LOG)
applications.register(cli, _APPLICATIONS)
cli.add_typer(sql.sql, name="sql", rich_help_panel=_APPLICATIONS)
cli.add_typer(connect.connect, name="connect", rich_help_panel=_APPLICATIONS)
cli.add_typer(stores.stores, name="stores", rich_help_panel=_APPLICATIONS)
command(cli, "serve", *serve.EXAMPLES, panel=_APPLICATIONS)(serve.serve)
cli.add_typer(serve.tokens, name="tokens", rich_help_panel=_APPLICATIONS)
command(cli, "doctor", *doctor.EXAMPLES, panel=_MACHINE)(doctor.doctor)
cli.add_typer(dev.dev, name="dev", rich_help_panel=_MACHINE)
command(cli, "bench", *bench.EXAMPLES, panel=_MACHINE)(bench.bench)


@command(cli, "version", panel=_MACHINE)
def version() -> None:
    """Prints the version."""
    from importlib.metadata import version as installed

    typer.echo(f"millstream {installed('millstream')}")


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code. `MILLSTREAM_DEBUG=1` prints the traceback of a failure."""
    if sys.stdout is None:  # the parent process closed it
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale lacks must not stop a command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = get_command(cli).main(args=arguments, prog_name="millstream", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as error:
        return _output_closed() if isinstance(error.__context__, OSError) else _number(error.code)
    except BrokenPipeError:
        return _output_closed()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except typer.Abort:
        print_note("")  # ends the line of the prompt
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001  (every failure is printed in a line or two)
        if os.environ.get("MILLSTREAM_DEBUG"):
            typer.echo(trace_text(error), err=True)
        return _failed(error)
    return _number(code)


def _number(code: Any) -> int:
    return code if isinstance(code, int) else ExitCode.OK


def _failed(error: Exception) -> int:
    if isinstance(error, UsageError):
        print_error(error)
        return ExitCode.USAGE
    if isinstance(error, MillstreamError):
        print_error(error)
        incompatible = isinstance(error, IncompatibleTopologyError | IncompatibleSchemaError)
        return ExitCode.INCOMPATIBLE if incompatible else ExitCode.ERROR
    if isinstance(error, typer.TyperException):
        return _misused(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        print_error(CommandError(f"{place}{error.strerror or error}"))
    else:
        hint = "this should not happen; MILLSTREAM_DEBUG=1 prints the traceback"
        print_error(CommandError(error_text(error), hint=hint))
    return ExitCode.ERROR


def _misused(error: Any) -> int:
    """Prints a mistake in the command line; a group without a command has already printed its help."""
    context = error.ctx
    if type(error).__name__ != "NoArgsIsHelpError":
        path = context.command_path if context is not None else "millstream"
        print_error(
            UsageError(error.format_message().rstrip(".").replace("Value error, ", ""), hint=f"see: {path} --help")
        )
    return ExitCode.USAGE


def _output_closed() -> int:
    """Redirects stdout to /dev/null, so that Python prints no error when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.OUTPUT_CLOSED
