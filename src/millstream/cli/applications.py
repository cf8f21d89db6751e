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
from millstream.errors import UnknownTopicError

EXAMPLES = {
    "run": (
        "millstream run word_count.py",
        "millstream run shop.streams:app --until-caught-up --config num.tasks=8",
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
    given: dict[str, Any] = {**cluster_settings(), **to_pairs(config)}
    # What the environment says is the default of an application that says nothing itself.
    if data is not None and is_on_command_line(context, "data"):
        given.setdefault("state.dir", data)
    return given


def run(
    context: typer.Context,
    target: Target,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Process what is in the topics now, then end.")
    ] = False,
    config: Settings = None,
    status: Annotated[
        Literal["auto", "line", "text", "json", "none"] | None,
        typer.Option(
            "--status",
            help="What it shows on stderr. auto: a live line; piped, text, with figures every 30 s. json: each second.",
        ),
    ] = None,
    data: Data = None,
) -> None:
    """Runs an application on Spark, until it is stopped or fails.

    Ctrl-C or SIGTERM lets it finish its batch and stop, within ten seconds: a batch that takes longer is given up, and
    run at the next start. A second Ctrl-C does not wait for that. Started again, it goes on where it was.
    """
    from millstream.cli.loading import lines_of_user, load

    given = _configuration(context, config, data)
    if status is not None:
        given["status"] = status
    app = load(target, given)
    try:
        with lines_of_user():
            app.run(until_caught_up=until_caught_up)
    except UnknownTopicError as error:
        hint = error.hint if error.hint and "did you mean" in error.hint else "make it: millstream topics create NAME"
        raise UnknownTopicError(error.message, hint=hint) from error


def describe(
    target: Target,
    format: Annotated[
        Literal["text", "mermaid", "svg", "json"], typer.Option("--format", help="text is Kafka Streams' own form.")
    ] = "text",
    config: Settings = None,
) -> None:
    """Describes the topology of an application as it runs. Nothing is started."""
    from millstream.cli.loading import lines_of_user, load

    app = load(target, to_pairs(config))
    with lines_of_user():
        print_text(app.describe(format).rstrip("\n"))


def plan_diff(
    context: typer.Context, target: Target, config: Settings = None, data: Data = None, output: Output = "table"
) -> None:
    """Compares the topology of an application with the one that last ran.

    Says what becomes of each store and operator. The exit code is 3 if the application could not go on with the state
    that there is, 4 if it could, but what is in some stores would be lost, else 0.
    """
    from millstream.cli.loading import lines_of_user, load
    from millstream.log.opening import log_location
    from millstream.runtime.start.application_state import read_state
    from millstream.runtime.start.checkpoint import checkpoint_of
    from millstream.runtime.start.compatibility import compare_with_last
    from millstream.runtime.start.instance_lock import directory_of

    app = load(target, _configuration(context, config, data))
    found = None
    with open_data(app.config["state.dir"], config=app.config) as log, lines_of_user():
        state = read_state(log, app.id)
        if state.started_plan is not None:
            checkpoint = checkpoint_of(state, app.config, directory_of(log_location(app.config), app.id))
            found = compare_with_last(app.topology(), state, log, checkpoint)
    if found is None:
        if output == "json":
            print_json({"application": app.id, "compatible": True, "first_run": True, "stores": [], "operators": []})
        else:
            print_text(f"Application {app.id} has not run yet: there is no state to go on with.")
        return
    if output == "json":
        changes = {
            part: [
                {"name": each.name, "status": each.status, "operator": each.operator}
                | {name: list(texts) for name, texts in (("reasons", each.reasons), ("notes", each.notes)) if texts}
                for each in getattr(found, part)
            ]
            for part in ("stores", "topics", "operators", "checkpoint")
        }
        print_json({"application": app.id, "compatible": found.compatible, "first_run": False, **changes})
    else:
        print_text(str(found))
    if not found.compatible:
        raise typer.Exit(ExitCode.INCOMPATIBLE)
    if found.names("lost"):
        raise typer.Exit(ExitCode.STATE_LOST)


def reset(
    application: Annotated[str, typer.Argument(metavar="APPLICATION", help="The id of the application.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="WHERE", help="Where it begins then: earliest (if nothing is said), latest, a time."
        ),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", min=0, metavar="N", help="Instead of --to: at this offset of each partition."),
    ] = None,
    checkpoint_gone: Annotated[
        bool,
        typer.Option(
            "--checkpoint-gone",
            help="Its checkpoint, at hdfs://… or the like, was deleted, or it has another checkpoint.location now.",
        ),
    ] = False,
    execute: Execute = False,
    yes: Yes = False,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Makes an application forget its state and how far it has read, so that it begins anew.

    Its internal topics, views and checkpoint are deleted. Its input and output topics stay as they are. Without
    --execute nothing is done. It refuses while an instance of the application is running.

    On a cluster, one on another machine is noticed if it publishes something while it is looked for, three seconds. One
    that has nothing to do is not: it is shut out, and stops at its next batch without having written anything.
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
        _tell_steps(application, begin(), output, done=True)


def migrate(
    context: typer.Context,
    target: Target,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="STORE",
            help="Keep the rows of this named store as they are, though their meaning has changed; repeat it for more.",
        ),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    config: Settings = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Gives an application a new checkpoint, with its named stores rebuilt from their changelogs.

    For a topology that has changed in stores without a name, that needs state for the first time, or no more, or whose
    checkpoint is lost. The application goes on reading where it was; stores without a name begin empty. Without
    --execute nothing is done.
    """
    from millstream.cli.loading import load
    from millstream.runtime import admin

    app = load(target, _configuration(context, config, data))
    with open_data(app.config["state.dir"], config=app.config) as log:
        if log.applications.published(app.id) is None:
            raise CommandError(
                f"application {app.id!r} has nothing to migrate: it has published nothing yet",
                hint="just run it; or, if its topology has changed since it was first started: millstream reset",
            )
    steps = admin.migrate(app, keep=keep or (), dry_run=True)
    if _agreed(f"Migrate application {app.id}?", app.id, steps, output, execute=execute, yes=yes):
        _tell_steps(app.id, admin.migrate(app, keep=keep or ()), output, done=True)


def _agreed(question: str, application: str, steps: list[str], output: str, *, execute: bool, yes: bool) -> bool:
    """Whether to do what was planned; says what that is, unless nobody wants to hear it."""
    if not execute:
        _tell_steps(application, steps, output, done=False)
        print_note("nothing has been done yet; --execute does it")
        return False
    if not yes:
        for step in steps:
            print_note(f"  - {step}")
        confirm(question, yes=yes)
    return True


def _tell_steps(application: str, steps: list[str], output: str, *, done: bool) -> None:
    if output == "json":
        print_json({"application": application, "done": done, "steps": steps})
        return
    print_text(f"{application}: {'done' if done else 'this would be done'}")
    for step in steps:
        print_text(f"  - {step}")
