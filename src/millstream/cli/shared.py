"""What commands have in common: their options, the data directory, values that people type, and questions."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from millstream.cli.exits import CommandError, ExitCode, UsageError
from millstream.config import Config, profiles
from millstream.core.names import check_name
from millstream.errors import LogError, LogFormatError, MillstreamError, suggestion
from millstream.text.escaping import printable, readable

if TYPE_CHECKING:
    from millstream.log import Log
    from millstream.log.opening import LogLocation
    from millstream.runtime.start.application_state import ApplicationState

_PATIENCE = 10.0
_PROFILE = "MILLSTREAM_PROFILE"

Data = Annotated[
    str | None,
    typer.Option(
        "--data", envvar="MILLSTREAM_DATA", metavar="DIR", help="The data directory. Default: .millstream, here."
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar="MILLSTREAM_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT",
        help="The brokers of a Kafka cluster, instead of the embedded log.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", envvar=_PROFILE, metavar="NAME", help="The cluster's settings in millstream.toml."),
]
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="For people, or for programs: one JSON object a line."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it. Without this, only say what would be done.")]
Target = Annotated[
    str, typer.Argument(metavar="APP", help="The application: module:name, file.py:name, or file.py with one in it.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Configuration of the application; as often as needed."),
]

C = TypeVar("C", bound=Callable[..., Any])


def command(
    group: typer.Typer, name: str, *examples: str, panel: str | None = None, local: bool = False
) -> Callable[[C], C]:
    """Registers a command: its docstring is its help, and examples follow the options.

    One that has a data directory has options for a cluster, too: `cluster` has what was said. Not if it is local.
    """

    def register(function: C) -> C:
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        epilog = "\n".join(["Examples:", *(f"  {example}" for example in examples)]) if examples else None
        group.command(name, help=text, epilog=epilog, rich_help_panel=panel)(
            function if local else _with_cluster(function)
        )
        return function

    return register


_cluster: ContextVar[Mapping[str, Any]] = ContextVar("cluster", default=MappingProxyType({}))


def cluster() -> dict[str, Any]:
    """Returns what was said on the command line about a cluster. What the environment says is not in it."""
    return dict(_cluster.get())


def _with_cluster(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    if "data" not in signature.parameters:
        return function
    own_context = "context" in signature.parameters
    more = [
        inspect.Parameter("bootstrap_servers", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Servers),
        inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Profile),
    ]

    @functools.wraps(function)
    def called(*, context: typer.Context, bootstrap_servers: str | None, profile: str | None, **options: Any) -> Any:
        settings: dict[str, Any] = {}
        if profile is not None and is_typed(context, "profile"):
            settings |= profiles.profile(profile)
        if bootstrap_servers is not None and is_typed(context, "bootstrap_servers"):
            settings["bootstrap.servers"] = bootstrap_servers
        if own_context:
            options["context"] = context
        token = _cluster.set(settings)
        try:
            with _chosen(profile):
                return function(**options)
        finally:
            _cluster.reset(token)

    if not own_context:
        more.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    called.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])  # type: ignore[attr-defined]
    called.__annotations__ = {**function.__annotations__, **{one.name: one.annotation for one in more}}
    return called


@contextmanager
def _chosen(profile: str | None) -> Iterator[None]:
    """Has the environment name the profile that was typed: of two of them, settings must not be mixed."""
    before = os.environ.get(_PROFILE)
    if profile is not None:
        os.environ[_PROFILE] = profile
    try:
        yield
    finally:
        if profile is not None and before is None:
            del os.environ[_PROFILE]
        elif before is not None:
            os.environ[_PROFILE] = before


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line, and not by the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def place(data: str | None, config: Mapping[str, Any] | None = None) -> LogLocation:
    """Where the log is: as the command line says, else as an application's configuration or the environment does."""
    from millstream.log.opening import log_location

    return log_location(Config({**Config(config).given, **cluster()}), data)


def open_data(data: str | None, *, create: bool = False, config: Mapping[str, Any] | None = None) -> Log:
    """Opens the log of a data directory, or of a cluster.

    Raises:
        LogError: There is none, or it cannot be used.
    """
    from millstream.log.opening import open_location

    where = place(data, config)
    try:
        log = open_location(where, create=create)
        log.connect(_PATIENCE, tell)
        return log
    except LogFormatError:
        raise
    except LogError as error:
        directory = where.directory
        if create or where.cluster or where.views.exists() or (directory.exists() and not directory.is_dir()):
            raise
        hint = "give the right one with --data or MILLSTREAM_DATA, or begin one: millstream topics create NAME"
        raise CommandError(f"there is no data directory {directory}", hint=hint) from error


def check_application(log: Log, application: str) -> ApplicationState:
    """Returns the recorded state of an application.

    Raises:
        CommandError: It has never run here.
        SetupError: Another version of Millstream wrote its state.
    """
    from millstream.runtime.start.application_state import ApplicationState

    check_name(application, "application")
    entries = log.applications.state(application)
    if not entries:
        hint = suggestion(application, log.groups()) or "millstream groups list shows the applications that have run"
        raise CommandError(f"there is no application {application!r} here", hint=hint)
    return ApplicationState.load(application, entries)


def to_milliseconds(text: str, option: str, others: str = "") -> int:
    """Returns a time that a person typed, in milliseconds since the epoch. Without a zone it is in UTC.

    Args:
        text: What was typed.
        option: Where, for an error.
        others: What else could have been typed, for an error.

    >>> to_milliseconds("1700000000000", "--timestamp"), to_milliseconds("2026-01-01T00:00:01Z", "--timestamp")
    (1700000000000, 1767225601000)
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        first = f"{others}, " if others else ""
        hint = f"write {first}milliseconds since the epoch, or a time such as 2026-01-31T12:00:00Z"
        raise UsageError(f"{option}: cannot read the time {text!r}", hint=hint) from None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def to_pairs(settings: Iterable[str] | None, option: str = "--config") -> dict[str, str]:
    """Returns options of the form ``key=value`` as a mapping."""
    pairs = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"{option}: {setting!r} is not of the form key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def confirm(question: str, *, yes: bool) -> None:
    """Asks before something is done that cannot be undone.

    Raises:
        CommandError: There is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("this cannot be undone, and there is no terminal to ask on", hint="add --yes")
    if not typer.confirm(printable(question), err=True):
        tell("nothing was done")
        raise typer.Exit(ExitCode.ERROR)


def tell(text: str) -> None:
    """Says something that is not the result of the command: on stderr."""
    typer.echo(readable(text), err=True)


def say(text: str) -> None:
    """Prints a result for people: text of one or more lines, in which control characters are escaped."""
    typer.echo("\n".join(printable(line) for line in text.split("\n")))


def fail(error: MillstreamError) -> None:
    """Says what went wrong and what to do about it: on stderr, in a line or two."""
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {error.message}", err=True)
    if error.hint:
        typer.echo(f"{typer.style('hint:', fg='yellow')} {error.hint}", err=True)
