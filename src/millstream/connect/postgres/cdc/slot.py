"""The replication slot: it is created with a snapshot, and compared with the recorded position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.connect.postgres.cdc.position import Identity, Position
from millstream.connect.postgres.cdc.replication import ReplicationStream
from millstream.connect.postgres.client import connector_errors, quoted, rows
from millstream.connect.postgres.lsn import parse_lsn, show_lsn
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812

PLUGIN = "pgoutput"

_NEW_SNAPSHOT = (
    "changes are missing from the topics. Reset the position of the connector to read all rows again, or set "
    "snapshot.mode to when_needed"
)


class SlotLostError(ConnectorError):
    """The slot cannot continue at the recorded position: changes are lost."""


class SlotState(NamedTuple):
    """A slot, as ``pg_replication_slots`` shows it; `retained` is the log that it holds back, in bytes."""

    plugin: str | None
    database: str | None
    pid: int | None
    confirmed: int
    wal_status: str | None
    retained: int


class NewSlot(NamedTuple):
    """A slot that was created: its position, and the name of the snapshot of the database at this position."""

    position: int
    snapshot: str


class Slot:
    """A replication slot by name.

    Args:
        name: The name of the slot.
        connection: A connection to its database.
    """

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self._connection = connection

    def state(self) -> SlotState | None:
        """Returns the state of the slot; None: there is no such slot."""
        found = self._rows(
            "select plugin, database, active_pid, confirmed_flush_lsn, wal_status, "
            "pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end,"
            " restart_lsn)::bigint from pg_replication_slots where slot_name = %s",
            (self.name,),
        )
        if not found:
            return None
        plugin, database, pid, confirmed, status, retained = found[0]
        return SlotState(plugin, database, pid, parse_lsn(confirmed or "0/0"), status, retained or 0)

    def identity(self, stream: ReplicationStream) -> Identity:
        """Returns what identifies the database and the slot."""
        ((system, timeline, _lsn, database, *_),) = stream.command("IDENTIFY_SYSTEM")
        return Identity(str(system), int(timeline), database, self.name)

    def create(self, stream: ReplicationStream, lock_timeout_ms: int) -> NewSlot | None:
        """Creates the slot. It waits for each transaction that is running, up to a time.

        The snapshot can be used until the connection of the stream does something else.

        Returns:
            The slot; None: a transaction ran for too long.

        Raises:
            ConnectorError: It cannot be created.
        """
        stream.command(f"SET lock_timeout = {lock_timeout_ms}")
        try:
            created = stream.command(f"CREATE_REPLICATION_SLOT {quoted(self.name)} LOGICAL {PLUGIN} EXPORT_SNAPSHOT")
        except ConnectorError as error:
            code = getattr(error.__cause__, "pgcode", None)
            if code == "55P03":
                return None
            if code != "53400":
                raise
            hint = "raise max_replication_slots, or drop slots that are not used: select * from pg_replication_slots"
            raise ConnectorError(error.message, hint=hint, may_pass=True) from error
        _name, position, snapshot, _plugin = created[0]
        return NewSlot(parse_lsn(position), snapshot)

    def drop(self) -> None:
        """Drops the slot, if there is one."""
        statement = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"
        self._rows(statement, (self.name,))

    def check_own(self, state: SlotState, database: str) -> None:
        """Checks that a slot can be used by this connector.

        Raises:
            ConnectorError: Another database, another plugin or another process uses it.
        """
        if state.plugin != PLUGIN or state.database != database:
            owner = f"it is of the plugin {state.plugin} and the database {state.database}"
            raise ConnectorError(
                f"PostgreSQL: the slot {self.name!r} belongs to something else: {owner}",
                hint="choose another slot.name",
            )
        if state.pid is not None:
            raise ConnectorError(
                f"PostgreSQL: the slot {self.name!r} is in use by the server process {state.pid}",
                hint="another connector uses it, or a lost connection has not timed out yet: "
                f"select pg_terminate_backend({state.pid})",
                may_pass=True,
            )

    def check_position(self, state: SlotState | None, position: Position, stream: ReplicationStream) -> Identity:
        """Checks that the slot continues at the recorded position, and returns the present identity.

        Raises:
            SlotLostError: It does not.
            ConnectorError: The position is of another database.
        """
        identity, recorded = self.identity(stream), position.identity
        if (identity.system, identity.database) != (recorded.system, recorded.database):
            raise ConnectorError(
                f"PostgreSQL: the position is of the database {recorded.database} in the cluster {recorded.system}, "
                f"and this is {identity.database} in the cluster {identity.system}",
                hint="connect to the same database, or reset the position of the connector",
            )
        self._check_history(identity, position, stream)
        if state is None:
            raise SlotLostError(
                f"PostgreSQL: the slot {self.name!r} does not exist, and the recorded position is "
                f"{show_lsn(position.lsn)}",
                hint=f"it was dropped, or the server was replaced by a replica without it: {_NEW_SNAPSHOT}",
            )
        if state.wal_status == "lost":
            raise SlotLostError(
                f"PostgreSQL: the server has deleted the log that the slot {self.name!r} needs",
                hint=f"max_slot_wal_keep_size is too small: {_NEW_SNAPSHOT}",
            )
        if state.confirmed > position.lsn:
            raise SlotLostError(
                f"PostgreSQL: the slot {self.name!r} is at {show_lsn(state.confirmed)}, beyond the recorded position "
                f"{show_lsn(position.lsn)}",
                hint=f"something else has advanced it or created it again: {_NEW_SNAPSHOT}",
            )
        return identity

    def _check_history(self, identity: Identity, position: Position, stream: ReplicationStream) -> None:
        recorded = position.identity.timeline
        if identity.timeline == recorded:
            ((flushed,),) = self._rows(
                "select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint where not pg_is_in_recovery()"
            ) or [(position.lsn,)]
            if flushed < position.lsn:
                raise SlotLostError(
                    f"PostgreSQL: the log of the server ends at {show_lsn(flushed)}, before the recorded position "
                    f"{show_lsn(position.lsn)}",
                    hint=f"the server was restored from a backup: {_NEW_SNAPSHOT}",
                )
            return
        end = None
        if identity.timeline > recorded:
            ((_file, content),) = stream.command(f"TIMELINE_HISTORY {identity.timeline}")
            end = switch_point(bytes(content).decode() if not isinstance(content, str) else content, recorded)
        if end is None or position.lsn > end:
            raise SlotLostError(
                f"PostgreSQL: the server is on timeline {identity.timeline}, which does not contain the recorded "
                f"position {show_lsn(position.lsn)} of timeline {recorded}",
                hint=f"a replica was promoted before it had received all changes, or a backup was restored: "
                f"{_NEW_SNAPSHOT}",
            )

    def _rows(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with connector_errors(f"using the slot {self.name!r}"), self._connection.cursor() as cursor:
            return rows(cursor, statement, parameters)


def switch_point(history: str, timeline: int) -> int | None:
    r"""Returns the position at which a timeline ended, from a history file of PostgreSQL; None: it is not in the file.

    >>> show_lsn(switch_point("1\t0/3000060\tno recovery target specified\n", 1))
    '0/3000060'
    """
    for line in history.splitlines():
        parts = line.split()
        if parts and parts[0] == str(timeline):
            return parse_lsn(parts[1])
    return None
