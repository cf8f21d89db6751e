"""Checks that a checkpoint and a log belong together. A wrong pair would lose or duplicate batches."""

from __future__ import annotations

import secrets
from pathlib import Path

from millstream.errors import SetupError
from millstream.log.api import Published
from millstream.plan.side import BEGIN_AGAIN
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.checkpoint import last_batch, local_path


def check_identity(
    application: str, state: ApplicationState, published: Published | None, checkpoint: str, directory: Path
) -> str:
    """Compares the checkpoint of an application with its log; returns the identity that they share.

    Args:
        application: The application id.
        state: Its recorded state.
        published: Its last published batch.
        checkpoint: Path or URL of the checkpoint. A checkpoint on other machines is not looked into.
        directory: The directory of the application, in which a new identity is written.

    Raises:
        SetupError: They do not belong together, or one of them is older than the other.
    """
    file = directory / "identity"
    own = file.read_text(encoding="ascii") if file.exists() else None
    expected = state.checkpoint_identity
    local = local_path(checkpoint)
    if local is not None:
        _check_batches(application, state, published, local)
    if expected is not None and own is not None and own != expected:
        raise SetupError(
            f"the checkpoint of application {application!r} belongs to another log",
            hint=f"use the data directory in which both were created; or {BEGIN_AGAIN}",
        )
    if expected is None and local is not None and (local / "metadata").exists():
        raise SetupError(
            f"the checkpoint of application {application!r} is not recorded in this log: {checkpoint}",
            hint="delete it, or use the data directory in which it was created",
        )
    identity = expected or own or secrets.token_hex(8)
    if own is None:
        file.write_text(identity, encoding="ascii")
    return identity


def _check_batches(application: str, state: ApplicationState, published: Published | None, local: Path) -> None:
    """Compares the last batches of checkpoint and log. The log is one batch ahead if a crash came between them."""
    base = state.first_batch
    committed = last_batch(local / "commits") + base
    last = base - 1 if published is None else published.batch
    if state.checkpoint_identity is not None and committed > last:
        raise SetupError(
            f"the checkpoint of application {application!r} is ahead of its log: it has batch {committed}, and "
            f"the last published one is {last if published is not None else 'none'}: the log was restored from "
            "a backup",
            hint=f"restore the checkpoint from the same backup; or delete it, and {_without_checkpoint(state)}",
        )
    if published is None or published.batch < base:
        return
    if not (local / "metadata").exists():
        raise SetupError(
            f"the checkpoint of application {application!r} is gone: {local}",
            hint=f"restore it; or {_without_checkpoint(state)}",
        )
    begun = last_batch(local / "offsets") + base
    if published.batch > begun:
        raise SetupError(
            f"the checkpoint of application {application!r} is older than its results: it ends with batch "
            f"{begun}, and batch {published.batch} was published",
            hint=f"restore the latest one; or {_without_checkpoint(state)}",
        )


def _without_checkpoint(state: ApplicationState) -> str:
    """The remedy for a lost checkpoint. It alone contains records that tasks have read and not processed yet."""
    if state.waiting:
        return BEGIN_AGAIN
    return f"make a new one, with named stores rebuilt from their changelogs: millstream migrate; or {BEGIN_AGAIN}"
