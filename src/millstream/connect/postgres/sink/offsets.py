"""The table of offsets: what a sink has written of each partition, and which instance may go on.

Each row has a fence: the epoch of the application and the epoch of the task that wrote last. An instance with a lower
fence is refused. Both epochs grow. The first one is compared first: it orders instances with different numbers of
tasks, in which a partition belongs to different tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from millstream.connect.postgres.client import quoted
from millstream.errors import FencedError

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

Partition: TypeAlias = tuple[str, int]
Fence: TypeAlias = tuple[int, int]

NAME = "millstream_offsets"

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    application text NOT NULL,
    connector text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint,
    application_epoch bigint NOT NULL,
    task_epoch bigint NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (application, connector, topic, partition)
)"""
# The update locks the rows until the transaction ends, in one order for all sinks. A row with a higher fence is not
# updated, and so not returned.
_CLAIM = """
INSERT INTO {table} AS recorded (application, connector, topic, partition, next_offset, application_epoch, task_epoch)
SELECT %s, %s, topic, partition, next_offset, %s, %s
FROM unnest(%s::text[], %s::integer[], %s::bigint[]) AS given (topic, partition, next_offset)
ORDER BY topic, partition
ON CONFLICT (application, connector, topic, partition) DO UPDATE SET
    next_offset = COALESCE(excluded.next_offset, recorded.next_offset),
    application_epoch = excluded.application_epoch,
    task_epoch = excluded.task_epoch,
    written_at = now()
WHERE (recorded.application_epoch, recorded.task_epoch) <= (excluded.application_epoch, excluded.task_epoch)
RETURNING topic, partition, next_offset"""


class OffsetTable:
    """The offsets of one connector.

    Args:
        schema: The schema of the table; None for the current one.
        application: The application id.
        connector: The name of the connector.
        fence: The epochs of the application and of the task.
    """

    def __init__(self, schema: str | None, application: str, connector: str, fence: Fence) -> None:
        self.name = quoted(NAME) if schema is None else f"{quoted(schema)}.{quoted(NAME)}"
        self._claim = _CLAIM.format(table=self.name.replace("%", "%%"))
        self._application = application
        self._connector = connector
        self._fence = fence

    def create(self, cursor: Cursor) -> None:
        """Creates the table if there is none."""
        cursor.execute("SELECT to_regclass(%s)", (self.name,))
        row = cursor.fetchone()
        if row is None or row[0] is None:
            # Two sessions that create a table at the same time would collide in the catalog.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (NAME,))
            cursor.execute(_CREATE.format(table=self.name))

    def claim(
        self, cursor: Cursor, partitions: Sequence[Partition], offsets: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Raises the fences of partitions and locks their rows until the transaction ends.

        Args:
            cursor: The cursor.
            partitions: The partitions.
            offsets: The offsets to record; others keep theirs.

        Returns:
            The recorded offsets to continue at.

        Raises:
            FencedError: A later instance has written to one of them.
        """
        topics, numbers = [topic for topic, _number in partitions], [number for _topic, number in partitions]
        given = [offsets.get(partition) for partition in partitions]
        cursor.execute(
            self._claim,
            (self._application, self._connector, *self._fence, topics, numbers, given),
        )
        claimed = {(topic, number): offset for topic, number, offset in cursor.fetchall()}
        lost = [partition for partition in partitions if partition not in claimed]
        if lost:
            topic, number = lost[0]
            raise FencedError(
                f"connector {self._connector}: another instance writes partition {number} of topic {topic}",
                hint=f"the table {NAME} has the epochs of that instance. If none runs, a database or a log was "
                "restored from a backup: delete the rows of the connector, or restore both",
            )
        return {partition: offset for partition, offset in claimed.items() if offset is not None}
