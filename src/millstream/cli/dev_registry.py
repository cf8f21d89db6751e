"""`millstream dev registry`: a schema registry on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from millstream.cli.exits import CommandError
from millstream.cli.options import Data, Output, command
from millstream.cli.printing import print_json, print_note, print_text
from millstream.core.durations import show_ms

if TYPE_CHECKING:
    from millstream.dev.registry import RegistryServer

registry = typer.Typer(no_args_is_help=True, help="A schema registry: Apicurio, in memory, on the loopback interface.")

_FOLDER = "registry"
_PORT = 8081


@command(
    registry,
    "start",
    "millstream dev registry start",
    "millstream dev registry start --port 18081",
    "export MILLSTREAM_SCHEMA_REGISTRY_URL=$(millstream dev registry start)",
    local=True,
)
def start(
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65_535, help="Its port. Default: the previous one, else 8081."),
    ] = None,
    data: Data = None,
) -> None:
    """Starts a schema registry in the background, and prints its address.

    It needs Java, and Maven, which downloads Apicurio Registry (140 MB) the first time. The registry has Confluent's
    API and keeps its schemas in memory: they are lost when it stops. It listens on 127.0.0.1 only, without security.
    """
    from millstream.core.data_directory import check_directory
    from millstream.dev.registry import APICURIO, RegistryServer, download_registry, has_registry

    directory = _directory(data)
    check_directory(directory.parent, create=True)
    server = _existing(directory)
    if server is not None and server.pid is not None:
        if port is not None and port != server.port:
            hint = "stop it first: millstream dev registry stop"
            raise CommandError(f"the registry is already running at {server.url}", hint=hint)
        print_note(f"the registry is already running (process {server.pid})")
        server.wait_until_ready()
        print_text(server.url)
        return
    if not has_registry():
        print_note(f"downloading Apicurio Registry {APICURIO} with Maven, once; it takes a minute …")
        download_registry()
    print_note("starting the registry; it takes some 15 seconds …")
    server = RegistryServer(directory, port=_PORT if port is None and server is None else port, attached=False)
    server.start()
    print_note(f"the registry is running (process {server.pid}); its schemas are in memory only")
    print_text(server.url)
    print_note(f"try: millstream schemas list --registry {server.url}")


@command(registry, "stop", "millstream dev registry stop", "millstream dev registry stop --delete", local=True)
def stop(
    delete: Annotated[bool, typer.Option("--delete", help="Delete its log, too.")] = False,
    data: Data = None,
) -> None:
    """Stops the schema registry. Its schemas are lost."""
    directory = _directory(data)
    server = _existing(directory)
    if server is None or server.pid is None:
        print_note("the registry is not running")
    else:
        server.stop()
        print_note("the registry was stopped")
    if delete and server is not None:
        server.delete()
        print_note(f"{directory} was deleted")


@command(registry, "status", "millstream dev registry status", "millstream dev registry status -o json", local=True)
def status(data: Data = None, output: Output = "table") -> None:
    """Shows whether the schema registry is running, and its address."""
    directory = _directory(data)
    server = _existing(directory)
    pid = server.pid if server is not None else None
    if server is None or pid is None:
        if output == "json":
            print_json(_Status(running=False, data=str(directory))._asdict())
        else:
            print_text("not running")
        return
    uptime = max(0, round(time.time() - (server.started or time.time())))
    answers = server.answers()
    if output == "json":
        print_json(_Status(True, answers, pid, server.url, uptime, str(directory))._asdict())
        return
    print_text(f"running at {server.url}{'' if answers else ', but it does not answer'}")
    print_text(f"process {pid}, for {show_ms(uptime * 1000)}; its log is in {directory}")


class _Status(NamedTuple):
    """The status of a registry; times in seconds."""

    running: bool
    answers: bool = False
    pid: int | None = None
    url: str | None = None
    uptime: int | None = None
    data: str = ""


def _directory(data: str | None) -> Path:
    from millstream.core.data_directory import data_directory

    return data_directory(data) / _FOLDER


def _existing(directory: Path) -> RegistryServer | None:
    """Returns the registry of a directory, or None if it was never started. Creates no files."""
    from millstream.dev.registry import RegistryServer

    return RegistryServer(directory, attached=False) if (directory / "registry.json").exists() else None
