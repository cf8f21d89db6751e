"""The data directory: its path and permissions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from millstream.errors import LogError

FILE_NAME = "log.db"


def data_directory(path: str | os.PathLike[str] | None) -> Path:
    """Returns the given path, else ``$MILLSTREAM_DATA``, else ``.millstream`` in the working directory."""
    return Path(path or os.environ.get("MILLSTREAM_DATA") or ".millstream").absolute()


def check_directory(directory: Path, *, create: bool) -> None:
    """Creates the directory if it does not exist, and refuses one that is writable by all users.

    Raises:
        LogError: It does not exist and `create` is false, or it cannot be created or used.
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
        raise LogError(f"{directory} cannot be the data directory: it is writable by all users", hint=hint)


def missing(directory: Path) -> LogError:
    """Returns the error for a directory without a log."""
    hint = "the data directory is set by MILLSTREAM_DATA; the default is .millstream in the working directory"
    return LogError(f"there is no log in {directory}", hint=hint)
