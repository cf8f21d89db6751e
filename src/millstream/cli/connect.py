"""`millstream connect`: run connectors of a file, show them, and give them commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from millstream.cli import applications
from millstream.cli.exits import CommandError
from millstream.cli.log_access import location_of
from millstream.cli.options import Data, Output, Settings, command
from millstream.cli.printing import print_json, print_note, print_rows, print_text
from millstream.errors import suggestion

connect = typer.Typer(no_args_is_help=True, help="Connectors: they move records between topics and other systems.")

Application = Annotated[str, typer.Argument(metavar="APPLICATION", help="The application id.")]
Connector = Annotated[str, typer.Argument(metavar="CONNECTOR", help="The name of the connector.")]


@command(connect, "run", "millstream connect run inventory.toml", "millstream connect run inventory.toml --serve :8088")
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file with tables [connectors.NAME].")],
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Move what is there now, then stop.")
    ] = False,
    config: Settings = None,
    status: Annotated[
        Literal["auto", "line", "text", "json", "none"] | None, typer.Option("--status", help="As for millstream run.")
    ] = None,
    serve: Annotated[
        str | None, typer.Option("--serve", metavar="ADDRESS", help="Serve the application there: 127.0.0.1:8088.")
    ] = None,
    data: Data = None,
) -> None:
    """Runs the connectors of a file until they are stopped, without Spark and without Java.

    Each connector continues at its recorded position. Keys of the connectors have Kafka Connect's names.
    """
    if file.suffix != ".toml":
        raise CommandError(
            f"{file} is not a TOML file", hint="connectors of an application run with it: millstream run"
        )
    applications.run(
        context, str(file), until_caught_up=until_caught_up, config=config, status=status, serve=serve, data=data
    )


@command(connect, "types", "millstream connect types", "millstream connect types postgres-cdc", local=True)
def types(
    name: Annotated[str | None, typer.Argument(metavar="TYPE", help="Show the settings of this type.")] = None,
    output: Output = "table",
) -> None:
    """Lists the connector types, or the settings of one."""
    from millstream.connect.plugins import BUILT_IN, class_of
    from millstream.connect.settings import REQUIRED

    if name is None:
        rows = [[plugin.name, plugin.kind, plugin.doc] for plugin in BUILT_IN]
        print_rows(["TYPE", "KIND", "DESCRIPTION"], rows, output)
        return
    settings = class_of(name).settings
    rows = [
        [key, setting.type, "required" if setting.default is REQUIRED else str(setting.default), setting.doc]
        for key, setting in settings.items()
    ]
    print_rows(["SETTING", "TYPE", "DEFAULT", "DESCRIPTION"], rows, output)


@command(connect, "install", "millstream connect install shop.toml orders", local=True)
def install(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file with the connector.")],
    connector: Connector,
) -> None:
    """Creates what a source needs in its system: the triggers and the change table of a source of type triggers.

    Call it again when tables are added, and in SQLite when columns are added.
    """
    _source(file, connector).install()
    print_note(f"installed what connector {connector} needs")


@command(connect, "remove", "millstream connect remove shop.toml orders", local=True)
def remove(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file with the connector.")],
    connector: Connector,
) -> None:
    """Removes what install has created, and changes that were not read yet. The connector must not run."""
    _source(file, connector).remove()
    print_note(f"removed what connector {connector} had installed")


def _source(file: Path, name: str) -> Any:
    from millstream.cli.loading import load
    from millstream.connect import SourceConnector

    connectors = {connector.name: connector for connector in load(str(file)).connectors}
    connector = connectors.get(name)
    if not isinstance(connector, SourceConnector):
        known = [each.name for each in connectors.values() if isinstance(each, SourceConnector)]
        hint = suggestion(name, known) or f"the sources are: {', '.join(known)}"
        raise CommandError(f"{file} has no source {name!r}", hint=hint)
    return connector.source


@command(connect, "status", "millstream connect status", "millstream connect status inventory")
def status(
    application: Annotated[str | None, typer.Argument(metavar="APPLICATION", help="Only of this one.")] = None,
    output: Output = "table",
    data: Data = None,
) -> None:
    """Shows the connectors of applications, and their tasks, as the applications have last reported."""
    reports = _reports(data)
    rows: list[list[Any]] = []
    shown: dict[str, Any] = {}
    for name in reports.applications() if application is None else [application]:
        report = reports.report(name)
        connectors = (report.content.get("metrics") or {}).get("connectors") or {}
        shown[name] = connectors
        for connector, facts in connectors.items():
            for task in facts["tasks"]:
                state = task["state"] if report.is_live else report.state
                problem = task["error"] or task["progress"]
                rows.append([name, connector, facts["class"], task["task"], state, task["records"], problem])
    if output == "json":
        print_json(shown)
    elif rows:
        print_rows(["APPLICATION", "CONNECTOR", "CLASS", "TASK", "STATE", "RECORDS", "PROBLEM"], rows, output)
    else:
        print_text(
            "No connectors have reported." if application is None else f"{application} has reported no connectors."
        )


def _reports(data: str | None) -> Any:
    from millstream.serve.observe.reports import Reports

    return Reports(location_of(data).directory)


def _command(data: str | None, application: str, connector: str, name: str, **arguments: Any) -> None:
    reports = _reports(data)
    known = (reports.report(application).content.get("metrics") or {}).get("connectors") or {}
    if connector not in known:
        there = f"it has: {', '.join(known)}" if known else "it has none"
        raise CommandError(f"application {application!r} has reported no connector {connector!r}", hint=there)
    reports.command(application, "connector", {"connector": connector, "command": name, "arguments": arguments})
    print_note(f"sent {name!r} to connector {connector} of application {application}")


@command(connect, "pause", "millstream connect pause inventory products")
def pause(application: Application, connector: Connector, data: Data = None) -> None:
    """Pauses a connector of a running application."""
    _command(data, application, connector, "pause")


@command(connect, "resume", "millstream connect resume inventory products")
def resume(application: Application, connector: Connector, data: Data = None) -> None:
    """Continues a connector that was paused."""
    _command(data, application, connector, "resume")


@command(connect, "restart", "millstream connect restart inventory products")
def restart(application: Application, connector: Connector, data: Data = None) -> None:
    """Restarts the tasks of a connector, also of one that has failed."""
    _command(data, application, connector, "restart")


@command(connect, "snapshot", "millstream connect snapshot inventory products public.products")
def snapshot(
    application: Application,
    connector: Connector,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE…", help="The tables, as schema.table.")],
    data: Data = None,
) -> None:
    """Has a connector of change data capture read tables again, while changes go on."""
    _command(data, application, connector, "snapshot", tables=list(tables))
