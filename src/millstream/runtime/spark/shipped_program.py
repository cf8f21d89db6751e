"""A program that is sent to the workers of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

from millstream.errors import RunError
from millstream.runtime.program.program import digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = 256 * 1024


class ShippedProgram:
    """A packed program. A small one is sent with every task, a large one once, as a file.

    Spark cannot start a query whose functions exceed a megabyte, as a function that holds a model does.

    Args:
        data: The program.
        session: The session of the query; None if only this process opens the program.
        directory: Directory for the file, on the driver.
    """

    def __init__(self, data: bytes, session: SparkSession | None, directory: Path) -> None:
        self.digest = digest(data)
        self._data = data if len(data) <= _SMALL else None
        self._path = directory / f"program-{self.digest.hex()}"
        for old in directory.glob("program-*"):
            old.unlink()
        if self._data is None:
            self._path.touch(mode=0o600)  # it may have passwords
            self._path.write_bytes(data)
            if session is not None:
                session.sparkContext.addFile(str(self._path))

    def open(self) -> bytes:
        """Returns the program."""
        if self._data is not None:
            return self._data
        here = self._path if self._path.exists() else Path(SparkFiles.get(self._path.name))
        data = here.read_bytes()
        if digest(data) != self.digest:
            raise RunError(f"the program of the application was changed on its way: {here}")
        return data
