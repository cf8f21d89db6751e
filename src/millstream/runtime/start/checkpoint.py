"""Where the checkpoint of an application is, and whether this machine can look into it."""

from __future__ import annotations

import re
from pathlib import Path

from millstream.config import Config
from millstream.errors import SetupError
from millstream.runtime.start.application_state import ApplicationState

_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def checkpoint_of(state: ApplicationState, config: Config, directory: Path) -> str:
    """Where the checkpoint of an application is: where it was made, else where the configuration says.

    Args:
        state: The recorded state of the application.
        config: Its configuration.
        directory: Its own directory.

    Returns:
        A path, or a URL of what is no directory of this machine.
    """
    made = state.checkpoint_location
    return _found(made, directory) if made else _configured(config, directory)


def all_checkpoints(state: ApplicationState, directory: Path) -> list[str]:
    """Where an application has, or may have, a checkpoint that was made."""
    found = [_found("checkpoint", directory)]
    found += [_found(each, directory) for each in state.former_checkpoints or []]
    if state.checkpoint_location is not None:
        found.append(_found(state.checkpoint_location, directory))
    return list(dict.fromkeys(found))


def recorded(checkpoint: str, directory: Path, *, goes_along: bool) -> str:
    """A checkpoint as the log knows it.

    Args:
        checkpoint: The checkpoint.
        directory: The application's own directory.
        goes_along: The log is in the same data directory. Then so is a checkpoint, if it is below that directory: else
            a copy of all of it would go on with the checkpoint of the other one, and destroy it.

    >>> recorded("/data/applications/shop/checkpoint-3", Path("/data/applications/shop"), goes_along=True)
    'checkpoint-3'
    >>> recorded("hdfs://name-node/shop", Path("/data/applications/shop"), goes_along=True)
    'hdfs://name-node/shop'
    """
    path, own = local_path(checkpoint), directory.absolute()
    if not goes_along or path is None or not path.is_relative_to(own):
        return checkpoint
    return str(path.relative_to(own))


def new_checkpoint(state: ApplicationState, config: Config, directory: Path, number: int) -> str:
    """Where an application can have another checkpoint: nothing may be there yet, or Spark would go on from that.

    Args:
        state: As above.
        config: As above.
        directory: As above.
        number: That of the first batch.

    Raises:
        SetupError: Nobody can tell whether there is something.
    """
    base = _configured(config, directory)
    used = all_checkpoints(state, directory)
    if local_path(base) is None:
        if base not in used:
            return base
        raise SetupError(
            f"a new checkpoint cannot be made beside {base}: what is there cannot be looked at from here",
            hint="nothing was changed; set checkpoint.location to another directory, which is empty or is not there, "
            "and migrate again",
        )
    free, count = base if base not in used else f"{base}-{number}", 1
    while free in used or Path(free).exists():
        count += 1
        free = f"{base}-{number}-{count}"
    return free


def local_path(checkpoint: str) -> Path | None:
    """The directory of a checkpoint; None if it is not one of this machine's file systems.

    >>> local_path("/shared/word-count"), local_path("hdfs://name-node/word-count")
    (PosixPath('/shared/word-count'), None)
    """
    return None if _URL.match(_plain(checkpoint)) else Path(_plain(checkpoint))


def last_batch(folder: Path) -> int:
    """The greatest batch number in a folder of a checkpoint; -1 if there is none."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def url_of(checkpoint: str) -> str:
    """A checkpoint as Spark is told of it: it may have been told to look for plain paths elsewhere."""
    path = local_path(checkpoint)
    return checkpoint if path is None else f"file://{path.absolute()}"


def _configured(config: Config, directory: Path) -> str:
    location = _plain(config["checkpoint.location"] or "")
    path = local_path(location) if location else directory / "checkpoint"
    return location if path is None else str(path.absolute())


def _found(location: str, directory: Path) -> str:
    """What `recorded` was given."""
    path = local_path(location)
    return _plain(location) if path is None else str(directory.absolute() / path)


def _plain(location: str) -> str:
    """A path, if it is the URL of a file; one place has one name."""
    plain = _FILE.sub("", location, count=1) if _FILE.match(location) else location
    return plain.rstrip("/") or plain[:1]
