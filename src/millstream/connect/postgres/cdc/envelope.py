"""The envelope of changes, as Debezium has it: the schema, the block that describes the source, and the transaction."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, NamedTuple

from millstream.connect.schema import INT64, STRING, ConnectSchema, struct_of

CONNECTOR = "postgresql"
VERSION = version("millstream")

_SNAPSHOT = ConnectSchema(
    "string",
    name="io.debezium.data.Enum",
    optional=True,
    version=1,
    parameters={"allowed": "true,last,false,incremental"},
    default="false",
)

SOURCE_SCHEMA = struct_of(
    "io.debezium.connector.postgresql.Source",
    {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": _SNAPSHOT,
        "db": STRING,
        "sequence": STRING.as_optional(),
        "schema": STRING,
        "table": STRING,
        "txId": INT64.as_optional(),
        "lsn": INT64.as_optional(),
        "xmin": INT64.as_optional(),
    },
)

TRANSACTION_SCHEMA = struct_of(
    "event.block",
    {"id": STRING, "total_order": INT64, "data_collection_order": INT64},
    optional=True,
)


class Origin(NamedTuple):
    """Where a change is from.

    Attributes:
        time: The time of the commit, or of the snapshot, in ms.
        lsn: The position of the change, or of the snapshot.
        snapshot: ``false`` for a change; ``true``, ``last`` or ``incremental`` for a row of a snapshot.
        xid: The id of the transaction.
        commit: The position of the commit record.
        transaction: The block of the transaction, if transactions are described.
    """

    time: int
    lsn: int
    snapshot: str = "false"
    xid: int | None = None
    commit: int | None = None
    transaction: dict[str, Any] | None = None


def envelope_schema(name: str, row: ConnectSchema) -> ConnectSchema:
    """Returns the schema of the values of a topic.

    Args:
        name: The name of the topic.
        row: The schema of a row.
    """
    optional = row.as_optional()
    return struct_of(
        f"{name}.Envelope",
        {
            "before": optional,
            "after": optional,
            "source": SOURCE_SCHEMA,
            "op": STRING,
            "ts_ms": INT64.as_optional(),
            "transaction": TRANSACTION_SCHEMA,
        },
    )


def sequence(commit: int | None, lsn: int) -> str:
    """Returns the order of a change among all changes: the position of its commit, then its own."""
    first = "null" if commit is None else f'"{commit}"'
    return f'[{first},"{lsn}"]'
