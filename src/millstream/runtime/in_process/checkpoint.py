"""A checkpoint in files, as Spark writes it: the end of a batch before it runs, then its state, then its commit."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec

from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.start.checkpoint import last_batch

TaskStates: TypeAlias = dict[int, dict[bytes, bytes]]
"""The state of each task, as keys and values."""


class FileCheckpoint:
    """The checkpoint of one application.

    Args:
        directory: Its directory, which is created.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        (directory / "metadata").touch()

    @property
    def next_batch(self) -> int:
        """Number of the first batch that is not committed."""
        return last_batch(self.directory / "commits") + 1

    def has_end(self, batch: int) -> bool:
        """Whether the end of a batch was written: the batch has begun."""
        return last_batch(self.directory / "offsets") >= batch

    def end(self, batch: int) -> BatchEnd:
        """The end of a batch that has begun."""
        return BatchEnd.from_json((self.directory / "offsets" / str(batch)).read_bytes())

    def write_end(self, batch: int, end: BatchEnd) -> None:
        """Writes the end of a batch."""
        self._write("offsets", batch, end.to_json().encode())

    def state(self, batch: int) -> TaskStates:
        """The state before a batch."""
        path = self.directory / "state" / str(batch)
        return msgspec.msgpack.decode(path.read_bytes(), type=TaskStates) if path.exists() else {}

    def write_state(self, batch: int, state: TaskStates) -> None:
        """Writes the state before a batch."""
        self._write("state", batch, msgspec.msgpack.encode(state))

    def commit(self, batch: int) -> None:
        """Writes that a batch is committed, and deletes state that no replay needs."""
        self._write("commits", batch, b"")
        for path in (self.directory / "state").glob("*"):
            if int(path.name) < batch:
                path.unlink()

    def _write(self, kind: str, number: int, data: bytes) -> None:
        folder = self.directory / kind
        folder.mkdir(exist_ok=True)
        part = folder / f"{number}.part"
        part.write_bytes(data)
        part.replace(folder / str(number))
