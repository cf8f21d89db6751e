"""Resets an application that is not running."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from millstream.core.names import check_name
from millstream.errors import AlreadyRunningError, SetupError
from millstream.log import Log, Scope
from millstream.log.opening import LogLocation, log_location, open_location
from millstream.runtime.admin.steps import as_done, delete_local, own_topics
from millstream.runtime.start.application_state import ApplicationState, ResetPosition, read_state
from millstream.runtime.start.checkpoint import all_checkpoints, local_path
from millstream.runtime.start.instance_lock import directory_of, lock_application

Position = Literal["earliest", "latest"] | int

_LOOK_SECONDS = 3.0


def reset(
    application_id: str,
    *,
    to: Position = "earliest",
    to_offset: int | None = None,
    state_dir: str | None = None,
    config: Mapping[str, Any] | None = None,
    checkpoint_gone: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Deletes the state of an application: stores, internal topics, views, committed offsets and checkpoint.

    Input and output topics are not changed. The next start is a first start.

    An instance on another machine is noticed only if it publishes: on a cluster, the reset waits three seconds for
    that. An idle instance is not noticed. It is fenced, and stops at its next batch without having written anything.

    Args:
        application_id: The application.
        to: Position at which it starts to read its input: the ``earliest`` record, the ``latest``, or the first record
            of a time in milliseconds.
        to_offset: Or this offset in each partition, limited to the offsets that exist.
        state_dir: The data directory; default: ``.millstream``.
        config: The settings of the application that locate its log: ``bootstrap.servers``, ….
        checkpoint_gone: A checkpoint outside of this machine (``hdfs://…``) was deleted, or the application has another
            ``checkpoint.location`` from now on. It would continue with an old checkpoint.
        dry_run: Return the steps without doing them.

    Returns:
        The steps that were, or would be, done: one sentence each.

    Raises:
        AlreadyRunningError: An instance of the application is running, with this data directory or elsewhere.
        SetupError: There is no such application, or its checkpoint has to be deleted by hand.
    """
    check_name(application_id, "application")
    if not (to in {"earliest", "latest"} or (type(to) is int and to >= 0)):
        raise SetupError(f"reset: cannot begin at {to!r}", hint="'earliest', 'latest' or a time in milliseconds")
    if to_offset is not None and (type(to_offset) is not int or to_offset < 0):
        raise SetupError(f"reset: cannot begin at offset {to_offset!r}", hint="the first record has offset 0")
    place = log_location(config or {}, state_dir)
    directory = directory_of(place, application_id)
    steps = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open_location(place, create=False))
        if not log.applications.state(Scope(application_id)) and not directory.exists():
            raise SetupError(f"there is no application {application_id!r} in {place}")
        stack.enter_context(lock_application(directory, application_id))
        state = read_state(log, application_id)
        checkpoints = [local_path(location) or location for location in all_checkpoints(state, directory)]
        elsewhere = [location for location in checkpoints if isinstance(location, str)]
        if elsewhere and not checkpoint_gone:
            raise SetupError(
                f"the checkpoint of application {application_id!r} cannot be deleted from here: {elsewhere[0]}",
                hint="nothing was changed; delete it with the tool of that storage (hdfs dfs -rm -r, aws s3 rm "
                "--recursive, …), or set another checkpoint.location; then reset with checkpoint_gone=True "
                "(--checkpoint-gone)",
            )
        if not dry_run:
            _shut_out(log, application_id, place)
        for topic in own_topics(log, application_id):
            steps.append(f"delete the internal topic {topic}")
            if not dry_run:
                log.delete_topic(topic)
        steps += _forgotten(application_id, place)
        steps += [f"leave the checkpoint {location}, which should be gone" for location in elsewhere]
        local = {path: "checkpoint" for path in checkpoints if isinstance(path, Path)}
        local[directory / "workers"] = "local stores of workers"
        steps += delete_local(local, dry_run=dry_run)
        begin: ResetPosition = {"offset": to_offset} if to_offset is not None else to
        where = f"offset {to_offset}" if to_offset is not None else f"the {to}" if isinstance(to, str) else f"time {to}"
        steps.append(f"begin to read at {where}")
        if not dry_run:
            (directory / "identity").unlink(missing_ok=True)
            log.applications.delete(application_id)
            epoch = log.applications.acquire(Scope(application_id))
            log.applications.set_state(Scope(application_id), ApplicationState(reset_to=begin).dump(), epoch)
    return steps if dry_run else as_done(steps)


def _forgotten(application: str, place: LogLocation) -> list[str]:
    """Steps of a reset beside internal topics and checkpoint."""
    if place.cluster is None:
        return ["delete its views, its committed offsets and what the log knows of it"]
    return [
        f"delete its journal, the topic {application}-progress, and its committed offsets",
        f"delete its views in {place.views}",
        "shut out an instance of it that runs on another machine, if there is one: it stops",
    ]


def _shut_out(log: Log, application: str, place: LogLocation) -> None:
    """Fences other instances. The lock of another machine is not visible here, but its publications are."""
    if place.cluster is None:
        log.applications.acquire(Scope(application))
        return
    before = log.applications.published(Scope(application))
    time.sleep(_LOOK_SECONDS)
    after = log.applications.published(Scope(application))
    if after is not None and after != before:
        raise AlreadyRunningError(
            f"application {application!r} is running elsewhere: it has just published batch {after.batch}",
            hint="stop that instance first",
        )
    log.applications.acquire(Scope(application))
