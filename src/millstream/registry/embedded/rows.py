"""The rows of the embedded registry."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from millstream.registry.api import Reference, Schema
from millstream.registry.embedded.database import damaged

Row: TypeAlias = tuple[Any, ...]


class Entry(NamedTuple):
    """A schema as it is compared and stored.

    Attributes:
        schema: The schema, with the text to store.
        parsed: Its parsed form.
        normal: The text that schemas have in common that differ only in form.
        by_normal: Whether to look for it by that text.
    """

    schema: Schema
    parsed: Any
    normal: str
    by_normal: bool

    @property
    def fingerprint(self) -> bytes:
        """Identifies the schema: its type, text and references."""
        return _digest(self.schema, self.schema.text, self.schema.references)

    @property
    def normal_fingerprint(self) -> bytes:
        """Identifies all schemas that differ from it only in form."""
        return _digest(self.schema, self.normal, sorted(self.schema.references))


def _digest(schema: Schema, text: str, references: Sequence[Reference]) -> bytes:
    return hashlib.sha256(json.dumps([schema.type, text, references]).encode()).digest()


def schema_row(connection: sqlite3.Connection, context: str, id: int) -> Row | None:
    """Returns the row of a schema."""
    row: Row | None = connection.execute(
        "SELECT type, text, refs, fingerprint FROM schemas WHERE context = ? AND id = ?", (context, id)
    ).fetchone()
    return row


def read_entry(row: Row, path: Path) -> Schema:
    """Returns the schema of a row.

    Raises:
        RegistryError: The row is damaged.
    """
    kind, text, references, fingerprint = row
    try:
        schema = Schema(text, kind, tuple(Reference(*reference) for reference in json.loads(references)))
    except (TypeError, ValueError) as error:
        raise damaged(path, str(error)) from None
    if _digest(schema, text, schema.references) != fingerprint:
        raise damaged(path, "a schema does not match its checksum")
    return schema


def live_versions(connection: sqlite3.Connection, subject: str) -> list[tuple[int, int]]:
    """Returns the versions of a subject that are not deleted, with their ids."""
    query = "SELECT version, id FROM versions WHERE subject = ? AND NOT deleted ORDER BY version"
    return connection.execute(query, (subject,)).fetchall()


def all_versions(connection: sqlite3.Connection, subject: str) -> dict[int, bool]:
    """Returns the versions of a subject, and whether each is deleted."""
    query = "SELECT version, deleted FROM versions WHERE subject = ? ORDER BY version"
    return {version: bool(deleted) for version, deleted in connection.execute(query, (subject,))}


def subjects(connection: sqlite3.Connection) -> list[str]:
    """Returns the subjects with versions that are not deleted."""
    query = "SELECT DISTINCT subject FROM versions WHERE NOT deleted ORDER BY subject"
    return [subject for (subject,) in connection.execute(query)]


def users(connection: sqlite3.Connection, subject: str, version: int, *, even_deleted: bool) -> list[tuple[str, int]]:
    """Returns the versions, of any subject, that refer to a version."""
    query = (
        "SELECT subject, version FROM refs JOIN versions USING (subject, version) "
        "WHERE used_subject = ? AND used_version = ? AND (? OR NOT deleted) ORDER BY subject, version"
    )
    return connection.execute(query, (subject, version, even_deleted)).fetchall()


def find_version(connection: sqlite3.Connection, subject: str, entry: Entry) -> tuple[int, int] | None:
    """Returns the latest version of a subject that has a schema, and its id."""
    column, fingerprint = (
        ("versions.normal", entry.normal_fingerprint) if entry.by_normal else ("schemas.fingerprint", entry.fingerprint)
    )
    found: tuple[int, int] | None = connection.execute(
        "SELECT version, id FROM versions JOIN schemas USING (context, id) "  # noqa: S608  (one of two columns)
        f"WHERE subject = ? AND NOT deleted AND {column} = ? ORDER BY version DESC",
        (subject, fingerprint),
    ).fetchone()
    return found


def add_version(connection: sqlite3.Connection, context: str, subject: str, entry: Entry) -> int:
    """Adds a version to a subject, and returns the id of its schema: a new one, unless the context has the schema."""
    found = connection.execute(
        "SELECT id FROM schemas WHERE context = ? AND fingerprint = ?", (context, entry.fingerprint)
    ).fetchone()
    schema_id: int = found[0] if found is not None else _add_schema(connection, context, entry)
    (last,) = connection.execute("SELECT max(version) FROM versions WHERE subject = ?", (subject,)).fetchone()
    version = (last or 0) + 1
    row = (subject, version, context, schema_id, entry.normal_fingerprint, False)
    connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", row)
    used = {(subject, version, reference.subject, reference.version) for reference in entry.schema.references}
    connection.executemany("INSERT INTO refs VALUES (?, ?, ?, ?)", sorted(used))
    return schema_id


def _add_schema(connection: sqlite3.Connection, context: str, entry: Entry) -> int:
    """Adds a schema under the next id of the context. The id of a deleted schema is not used again."""
    connection.execute("INSERT INTO ids VALUES (?, 1) ON CONFLICT (context) DO UPDATE SET last = last + 1", (context,))
    (schema_id,) = connection.execute("SELECT last FROM ids WHERE context = ?", (context,)).fetchone()
    schema = entry.schema
    row = (context, schema_id, schema.type, schema.text, json.dumps(schema.references), entry.fingerprint)
    connection.execute("INSERT INTO schemas VALUES (?, ?, ?, ?, ?, ?)", row)
    return int(schema_id)


def delete_versions(connection: sqlite3.Connection, subject: str, versions: list[int], *, permanent: bool) -> None:
    """Marks versions of a subject as deleted; or deletes them, and their schemas if no other version has them."""
    for version in versions:
        if permanent:
            connection.execute("DELETE FROM refs WHERE subject = ? AND version = ?", (subject, version))
        change = "DELETE FROM versions" if permanent else "UPDATE versions SET deleted = 1"
        connection.execute(f"{change} WHERE subject = ? AND version = ?", (subject, version))
    if permanent:
        connection.execute(
            "DELETE FROM schemas WHERE NOT EXISTS "
            "(SELECT 1 FROM versions WHERE versions.context = schemas.context AND versions.id = schemas.id)"
        )
