"""Options that several commands share, and the registration of a command."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import typer

from millstream.config import profiles

_PROFILE = "MILLSTREAM_PROFILE"

Data = Annotated[
    str | None,
    typer.Option("--data", envvar="MILLSTREAM_DATA", metavar="DIR", help="The data directory. Default: ./.millstream"),
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
    typer.Option("--profile", envvar=_PROFILE, metavar="NAME", help="A profile of a cluster in millstream.toml."),
]
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="A table, or one JSON object per line."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Execute = Annotated[bool, typer.Option("--execute", help="Execute the steps. Without this option, only print them.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="module:name, file.py:name, file.py with one application in it, script.sql, or connectors.toml.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A configuration key of the application; repeatable."),
]

Functions = Annotated[
    list[Path] | None,
    typer.Option("--functions", metavar="FILE", help="A Python file with functions for SQL (@udf); repeatable."),
]

C = TypeVar("C", bound=Callable[..., Any])


def command(
    group: typer.Typer, name: str, *examples: str, panel: str | None = None, local: bool = False
) -> Callable[[C], C]:
    """Registers a command: its docstring becomes its help, and the examples follow the options.

    A command with the option ``data`` also gets the options of a cluster, unless it is local. `cluster_settings`
    returns their values.
    """

    def register(function: C) -> C:
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        epilog = "\n".join(["Examples:", *(f"  {example}" for example in examples)]) if examples else None
        group.command(name, help=text, epilog=epilog, rich_help_panel=panel)(
            function if local else _with_cluster_options(function)
        )
        return function

    return register


def group_command(group: typer.Typer, *examples: str) -> Callable[[C], C]:
    """Registers what a group does without a command of its own; otherwise as `command`."""

    def register(function: C) -> C:
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        epilog = "\n".join(["Examples:", *(f"  {example}" for example in examples)]) if examples else None
        group.callback(invoke_without_command=True, help=text, epilog=epilog)(_with_cluster_options(function))
        return function

    return register


_cluster: ContextVar[Mapping[str, Any]] = ContextVar("cluster", default=MappingProxyType({}))


def cluster_settings() -> dict[str, Any]:
    """Returns the settings of the cluster that the command line names. Those of the environment are not included."""
    return dict(_cluster.get())


def _with_cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    if "data" not in signature.parameters:
        return function
    has_context = "context" in signature.parameters
    added = [
        inspect.Parameter("bootstrap_servers", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Servers),
        inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Profile),
    ]

    @functools.wraps(function)
    def called(*, context: typer.Context, bootstrap_servers: str | None, profile: str | None, **options: Any) -> Any:
        settings: dict[str, Any] = {}
        if profile is not None and is_on_command_line(context, "profile"):
            settings |= profiles.profile(profile)
        if bootstrap_servers is not None and is_on_command_line(context, "bootstrap_servers"):
            settings["bootstrap.servers"] = bootstrap_servers
        if has_context:
            options["context"] = context
        token = _cluster.set(settings)
        try:
            with _profile_in_environment(profile):
                return function(**options)
        finally:
            _cluster.reset(token)

    if not has_context:
        added.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    called.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    called.__annotations__ = {
        **function.__annotations__,
        **{parameter.name: parameter.annotation for parameter in added},
    }
    return called


@contextmanager
def _profile_in_environment(profile: str | None) -> Iterator[None]:
    """Sets the profile in the environment, so that settings of two profiles are not mixed."""
    previous = os.environ.get(_PROFILE)
    if profile is not None:
        os.environ[_PROFILE] = profile
    try:
        yield
    finally:
        if profile is not None and previous is None:
            del os.environ[_PROFILE]
        elif previous is not None:
            os.environ[_PROFILE] = previous


def is_on_command_line(context: typer.Context, name: str) -> bool:
    """Whether an option comes from the command line, not from the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
