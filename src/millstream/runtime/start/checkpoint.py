"""The location of the checkpoint of an application: a local directory, or a URL that only Spark can read."""

from __future__ import annotations

import re
from pathlib import Path

from millstream.config import Config
from millstream.errors import SetupError
from millstream.runtime.start.application_state import ApplicationState

_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def checkpoint_of(state: ApplicationState, config: Config, directory: Path) -> str:
    """Returns the location of the checkpoint: as recorded, else as configured.

    Args:
        state: The recorded state of the application.
        config: Its configuration.
        directory: Its own directory.

    Returns:
        A path of this machine, or a URL.
    """
    made = state.checkpoint_location
    return _resolved(made, directory) if made else _configured(config, directory)


def all_checkpoints(state: ApplicationState, directory: Path) -> list[str]:
    """Returns all locations at which an application has, or may have, a checkpoint."""
    locations = ["checkpoint", *(state.former_checkpoints or [])]
    if state.checkpoint_location is not None:
        locations.append(state.checkpoint_location)
    return list(dict.fromkeys(_resolved(location, directory) for location in locations))


def recorded(checkpoint: str, directory: Path, *, goes_along: bool) -> str:
    """The form of a location that the log records.

    Args:
        checkpoint: The checkpoint.
        directory: The application's own directory.
        goes_along: The log is in the same data directory. A checkpoint below that directory is then recorded by its
            relative path. Otherwise a copy of the data directory would continue with, and destroy, the original's.

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
    """Returns a free location for another checkpoint. Spark would continue with one that exists there.

    Args:
        state: As above.
        config: As above.
        directory: As above.
        number: Number of its first batch.

    Raises:
        SetupError: The configured location is in use, and a free one beside it cannot be looked for on this machine.
    """
    base = _configured(config, directory)
    used = all_checkpoints(state, directory)
    if local_path(base) is None:
        if base not in used:
            return base
        raise SetupError(
            f"a new checkpoint cannot be created beside {base}: this machine cannot read that storage",
            hint="nothing was changed; set checkpoint.location to another directory, which is empty or does not exist, "
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
    """The URL of a checkpoint. Spark may resolve a plain path on another file system."""
    path = local_path(checkpoint)
    return checkpoint if path is None else f"file://{path.absolute()}"


def _configured(config: Config, directory: Path) -> str:
    location = _plain(config["checkpoint.location"] or "")
    path = local_path(location) if location else directory / "checkpoint"
    return location if path is None else str(path.absolute())


def _resolved(location: str, directory: Path) -> str:
    """The inverse of `recorded`."""
    path = local_path(location)
    return _plain(location) if path is None else str(directory.absolute() / path)


def _plain(location: str) -> str:
    """Normalises a location: a file URL becomes a path, without a slash at the end."""
    plain = _FILE.sub("", location, count=1) if _FILE.match(location) else location
    return plain.rstrip("/") or plain[:1]
