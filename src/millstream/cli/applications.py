"""Commands of applications: run, describe, plan-diff, reset, migrate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import typer

from millstream.cli.exits import CommandError, ExitCode, UsageError
from millstream.cli.log_access import check_application, open_data
from millstream.cli.options import (
    Data,
    Execute,
    Functions,
    Output,
    Settings,
    Target,
    Yes,
    cluster_settings,
    command,
    is_on_command_line,
)
from millstream.cli.printing import print_json, print_note, print_text
from millstream.cli.user_input import confirm, to_milliseconds, to_pairs
from millstream.config import Mode
from millstream.errors import UnknownTopicError

EXAMPLES = {
    "run": (
        "millstream run word_count.py",
        "millstream run word_count.py --local --until-caught-up",
        "millstream run shop.streams:app --real-time --config num.workers=8",
        "millstream run shop.sql --functions functions.py --local",
    ),
    "describe": (
        "millstream describe word_count.py",
        "millstream describe shop.streams:app --format mermaid",
    ),
    "plan-diff": ("millstream plan-diff word_count.py && millstream run word_count.py",),
    "reset": (
        "millstream reset word-count",
        "millstream reset word-count --to 2026-01-31T00:00:00Z --execute",
    ),
    "migrate": (
        "millstream migrate word_count.py",
        "millstream migrate word_count.py --execute --yes",
    ),
}


def register(cli: typer.Typer, panel: str) -> None:
    """Adds the commands."""
    commands: dict[str, Callable[..., None]] = {
        "run": run,
        "describe": describe,
        "plan-diff": plan_diff,
        "reset": reset,
        "migrate": migrate,
    }
    for name, function in commands.items():
        command(cli, name, *EXAMPLES[name], panel=panel)(function)


def _configuration(context: typer.Context, config: list[str] | None, data: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {**cluster_settings(), **to_pairs(config)}
    # The environment is only a default: it does not override the configuration of the application.
    if data is not None and is_on_command_line(context, "data"):
        settings.setdefault("state.dir", data)
    return settings


def run(
    context: typer.Context,
    target: Target,
    real_time: Annotated[
        bool,
        typer.Option("--real-time", help="Run in long-lived workers on Spark, with results after milliseconds."),
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Run such workers in this process, without Spark and without Java.")
    ] = False,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Process the records that are in the topics now, then stop.")
    ] = False,
    config: Settings = None,
    status: Annotated[
        Literal["auto", "line", "text", "json", "none"] | None,
        typer.Option(
            "--status",
            help="The status on stderr. auto: a live line; in a pipe, text with figures every 30 s. json: each second.",
        ),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            "--serve", metavar="ADDRESS", help="Serve the application and the web console there: 127.0.0.1:8088."
        ),
    ] = None,
    data: Data = None,
    functions: Functions = None,
) -> None:
    """Runs an application until it is stopped or fails: on Spark, unless --local is given.

    Without --real-time and --local, the key execution.mode of the application decides how it runs; by default in
    micro-batches on Spark.

    After Ctrl-C or SIGTERM the application publishes what it has processed, and stops. A batch that takes longer than
    ten seconds is aborted, and runs again at the next start. A second Ctrl-C aborts it at once. After a restart the
    application continues from its committed offsets.
    """
    from millstream.cli.loading import load, user_lines

    if real_time and local:
        raise UsageError("only one of --real-time and --local can be given")
    settings = _configuration(context, config, data)
    if status is not None:
        settings["status"] = status
    mode: Mode | None = "real_time" if real_time else "local" if local else None
    app = load(target, settings, functions or ())
    try:
        with user_lines():
            app.run(mode=mode, until_caught_up=until_caught_up, serve=serve)
    except UnknownTopicError as error:
        hint = error.hint if error.hint and "did you mean" in error.hint else "create it: millstream topics create NAME"
        raise UnknownTopicError(error.message, hint=hint) from error


def describe(
    target: Target,
    format: Annotated[
        Literal["text", "mermaid", "svg", "json"],
        typer.Option("--format", "--output", help="text is the format of Kafka Streams."),
    ] = "text",
    config: Settings = None,
    functions: Functions = None,
) -> None:
    """Describes the topology of an application, after optimization. It is not started."""
    from millstream.cli.loading import load, user_lines

    app = load(target, to_pairs(config), functions or ())
    with user_lines():
        print_text(app.describe(format).rstrip("\n"))


def plan_diff(
    context: typer.Context,
    target: Target,
    config: Settings = None,
    data: Data = None,
    output: Output = "table",
    functions: Functions = None,
) -> None:
    """Compares the topology of an application with the one that last ran.

    Shows the consequence for each store and operator. The exit code is 3 if the topology is incompatible with the
    existing state, 4 if it is compatible but some stores lose their contents, else 0.
    """
    from millstream.cli.loading import load, user_lines
    from millstream.log.opening import log_location
    from millstream.runtime.real_time.comparison import compare_workers
    from millstream.runtime.start.application_state import read_state
    from millstream.runtime.start.checkpoint import checkpoint_of
    from millstream.runtime.start.compatibility import compare_with_last
    from millstream.runtime.start.instance_lock import directory_of
    from millstream.runtime.start.schemas import with_recorded_schemas
    from millstream.stages.placement import place

    app = load(target, _configuration(context, config, data), functions or ())
    comparison = None
    with open_data(app.config["state.dir"], config=app.config) as log, user_lines():
        state = read_state(log, app.id)
        if state.started_plan is not None:
            checkpoint = checkpoint_of(state, app.config, directory_of(log_location(app.config), app.id))
            topology = with_recorded_schemas(app.topology(), state, register=False)
            if state.mode == "real_time":
                comparison = compare_workers(topology, app.config, state, log, checkpoint)
            else:
                comparison = compare_with_last(topology, place(topology), state, log, checkpoint)
    if comparison is None:
        if output == "json":
            print_json({"application": app.id, "compatible": True, "first_run": True, "stores": [], "operators": []})
        else:
            print_text(f"Application {app.id} has not run yet: there is no state to compare with.")
        return
    if output == "json":
        changes = {
            part: [
                {"name": change.name, "status": change.status, "operator": change.operator}
                | {name: list(texts) for name, texts in (("reasons", change.reasons), ("notes", change.notes)) if texts}
                for change in getattr(comparison, part)
            ]
            for part in ("stores", "topics", "outputs", "definitions", "operators", "checkpoint")
        }
        print_json({"application": app.id, "compatible": comparison.compatible, "first_run": False, **changes})
    else:
        print_text(str(comparison))
    if not comparison.compatible:
        raise typer.Exit(ExitCode.INCOMPATIBLE)
    if comparison.names("lost"):
        raise typer.Exit(ExitCode.STATE_LOST)


def reset(
    application: Annotated[str, typer.Argument(metavar="APPLICATION", help="The application id.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="WHERE", help="The new start position: earliest (the default), latest, or a time."
        ),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", min=0, metavar="N", help="Instead of --to: this offset of each partition."),
    ] = None,
    checkpoint_gone: Annotated[
        bool,
        typer.Option(
            "--checkpoint-gone",
            help="Its remote checkpoint (hdfs://…) was deleted, or its checkpoint.location has changed.",
        ),
    ] = False,
    execute: Execute = False,
    yes: Yes = False,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Deletes the state and the committed offsets of an application, so that it starts from scratch.

    Its internal topics, views and checkpoint are deleted; its input and output topics are not changed. Without
    --execute the steps are only printed. The command fails while an instance of the application is running.

    On a cluster, an instance on another machine is detected if it publishes within three seconds. An idle instance is
    not detected: it is fenced, and stops at its next batch without writing anything.
    """
    from millstream.runtime import admin

    if to is not None and to_offset is not None:
        raise UsageError("only one of --to and --to-offset can be given")
    where: Any = to or "earliest"
    if where not in {"earliest", "latest"}:
        where = to_milliseconds(where, "--to", "earliest, latest")
    with open_data(data) as log:
        check_application(log, application)
    begin = partial(
        admin.reset,
        application,
        to=where,
        to_offset=to_offset,
        state_dir=data,
        config=cluster_settings(),
        checkpoint_gone=checkpoint_gone,
    )
    steps = begin(dry_run=True)
    if _agreed(f"Reset application {application}?", application, steps, output, execute=execute, yes=yes):
        _print_steps(application, begin(), output, done=True)


def migrate(
    context: typer.Context,
    target: Target,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="STORE",
            help="Keep the rows of this named store unchanged, although its definition has changed; repeatable.",
        ),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    config: Settings = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Creates a new checkpoint for an application, and restores its named stores from their changelogs.

    Use it if unnamed stores of the topology have changed, if the topology has become stateful or stateless, or if the
    checkpoint is lost. The application continues from its committed offsets; unnamed stores start empty. Without
    --execute the steps are only printed.

    In real-time and local execution all stores have changelogs: only unnamed stores that have changed start empty.

    With --config execution.mode=…, an application that has run in micro-batches is migrated to workers (real_time,
    local), or back: it continues from its offsets, with its named stores.
    """
    from millstream.cli.loading import load
    from millstream.log import Scope
    from millstream.runtime import admin

    app = load(target, _configuration(context, config, data))
    with open_data(app.config["state.dir"], config=app.config) as log:
        if log.applications.published(Scope(app.id)) is None:
            raise CommandError(
                f"application {app.id!r} has nothing to migrate: it has not published a batch yet",
                hint="run it; or, if its topology has changed since its first start: millstream reset",
            )
    steps = admin.migrate(app, keep=keep or (), dry_run=True)
    if _agreed(f"Migrate application {app.id}?", app.id, steps, output, execute=execute, yes=yes):
        _print_steps(app.id, admin.migrate(app, keep=keep or ()), output, done=True)


def _agreed(question: str, application: str, steps: list[str], output: str, *, execute: bool, yes: bool) -> bool:
    """Whether to execute the steps; prints them first, unless --yes is given."""
    if not execute:
        _print_steps(application, steps, output, done=False)
        print_note("nothing was done; add --execute to execute the steps")
        return False
    if not yes:
        for step in steps:
            print_note(f"  - {step}")
        confirm(question, yes=yes)
    return True


def _print_steps(application: str, steps: list[str], output: str, *, done: bool) -> None:
    if output == "json":
        print_json({"application": application, "done": done, "steps": steps})
        return
    print_text(f"{application}: {'done' if done else 'steps'}")
    for step in steps:
        print_text(f"  - {step}")
