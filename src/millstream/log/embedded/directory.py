"""The data directory: where it is, and who may look into it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from millstream.errors import LogError

FILE_NAME = "log.db"


def data_directory(path: str | os.PathLike[str] | None) -> Path:
    """Returns the directory that was given, else ``$MILLSTREAM_DATA``, else ``.millstream`` where we are."""
    return Path(path or os.environ.get("MILLSTREAM_DATA") or ".millstream").absolute()


def check_directory(directory: Path, *, create: bool) -> None:
    """Makes the directory if it is not there, and refuses one that anybody can write to.

    Raises:
        LogError: It is not there and must not be made, or cannot be made or used.
    """
    try:
        if create:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
    except FileNotFoundError as error:
        raise missing(directory) from error
    except OSError as error:
        raise LogError(f"{directory} cannot be the data directory: {error.strerror}") from error
    if not stat.S_ISDIR(mode):
        raise LogError(f"{directory} cannot be the data directory: it is a file")
    if mode & stat.S_IWOTH:
        hint = f"chmod 700 {directory}, or choose another one with MILLSTREAM_DATA"
        raise LogError(f"{directory} cannot be the data directory: everybody may write to it", hint=hint)


def missing(directory: Path) -> LogError:
    """Returns the error that says that there is no log in a directory."""
    hint = "the data directory is given by MILLSTREAM_DATA, or is .millstream where the program was started"
    return LogError(f"there is no log in {directory}", hint=hint)
