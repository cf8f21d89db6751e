"""The embedded registry, with the semantics of Confluent's: ids, subjects, versions, compatibility, soft deletion."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from millstream.errors import InvalidSchemaError, RegistryError, UnknownSchemaError, suggestion
from millstream.registry.api import Reference, Registered, Schema
from millstream.registry.contexts import DEFAULT_CONTEXT, split_subject
from millstream.registry.embedded import rows
from millstream.registry.embedded.database import SchemaDatabase
from millstream.registry.embedded.rows import Entry, read_entry
from millstream.registry.explanations import Parsed, compare, incompatible
from millstream.registry.formats import format_of
from millstream.registry.formats.problems import Finding, Sides
from millstream.registry.levels import DEFAULT, check_level, find_problems

_GLOBAL = ""  # the row of the global level: no subject has an empty name
_LATEST = -1  # the version in a reference that stands for the latest one


class EmbeddedRegistry:
    """The registry in a data directory. Its file is created by the first write.

    Args:
        directory: The data directory.
    """

    def __init__(self, directory: Path) -> None:
        self._database = SchemaDatabase(directory)
        self._schemas: dict[tuple[str, int], Schema] = {}
        self._ids: dict[tuple[str, Schema, bool], int] = {}

    def __repr__(self) -> str:
        return f"EmbeddedRegistry({str(self._database.path.parent)!r})"

    # ----- reading ---------------------------------------------------------------------------------------------------

    def schema(self, id: int, subject: str | None = None) -> Schema:
        """Returns the schema of an id."""
        context = DEFAULT_CONTEXT if subject is None else split_subject(subject)[0]
        known = self._schemas.get((context, id))
        if known is not None:
            return known
        with self._database.read() as connection:
            row = None if connection is None else rows.schema_row(connection, context, id)
        if row is None:
            where = "" if context == DEFAULT_CONTEXT else f" in the context {context}"
            hint = "the record may have been written with another registry: see schema.registry.url"
            raise UnknownSchemaError(f"there is no schema with the id {id}{where} in {self._place}", hint=hint)
        schema = self._schemas[context, id] = read_entry(row, self._database.path)
        return schema

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Returns the version of a subject that has a schema."""
        _context, name = split_subject(subject)
        with self._database.read() as connection:
            self._check_subject(connection, name)
            assert connection is not None
            version = rows.find_version(connection, name, self._prepare(connection, schema, normalize=normalize))
        if version is None:
            hint = f"register it: millstream schemas register {name} FILE"
            raise UnknownSchemaError(f"subject {name!r} has no version with this schema", hint=hint)
        return self._registered(name, *version)

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject."""
        _context, name = split_subject(subject)
        with self._database.read() as connection:
            version = self._check_subject(connection, name)[-1]
        return self._registered(name, *version)

    def version(self, subject: str, version: int) -> Registered:
        """Returns a version of a subject."""
        _context, name = split_subject(subject)
        with self._database.read() as connection:
            versions = dict(self._check_subject(connection, name))
        if version not in versions:
            hint = f"it has: {', '.join(map(str, versions))}"
            raise UnknownSchemaError(f"subject {name!r} has no version {version}", hint=hint)
        return self._registered(name, version, versions[version])

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject that are not deleted."""
        with self._database.read() as connection:
            return [version for version, _id in self._check_subject(connection, split_subject(subject)[1])]

    def subjects(self) -> list[str]:
        """Returns the subjects that are not deleted."""
        with self._database.read() as connection:
            return [] if connection is None else rows.subjects(connection)

    # ----- writing ---------------------------------------------------------------------------------------------------

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Registers a schema as the next version of a subject, unless it is one of its versions, and returns its id."""
        context, name = split_subject(subject)
        known = self._ids.get((name, schema, normalize))
        if known is not None:
            return known
        with self._database.read() as connection:  # most are registered already, and need no write lock
            entry = self._prepare(connection, schema, normalize=normalize)
            version = None if connection is None else rows.find_version(connection, name, entry)
        if version is not None:
            schema_id = version[1]
        else:
            with self._database.write() as connection:
                # Another process may have registered or deleted versions meanwhile.
                entry = self._prepare(connection, schema, normalize=normalize)
                version = rows.find_version(connection, name, entry)
                schema_id = version[1] if version is not None else self._add(connection, context, name, entry)
        self._ids[name, schema, normalize] = schema_id
        return schema_id

    def _add(self, connection: sqlite3.Connection, context: str, subject: str, entry: Entry) -> int:
        problems, level = self._problems(connection, subject, entry)
        if problems:
            raise incompatible(subject, level, problems)
        return rows.add_version(connection, context, subject, entry)

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Deletes a version of a subject, or all, and returns the deleted versions."""
        _context, name = split_subject(subject)
        with self._database.write() as connection:
            versions = rows.all_versions(connection, name)
            present = [number for number, deleted in versions.items() if permanent or not deleted]
            chosen = present if version is None else [number for number in present if number == version]
            if not present:
                raise self._unknown_subject(connection, name)
            if not chosen:
                hint = f"it has: {', '.join(map(str, present))}"
                raise UnknownSchemaError(f"subject {name!r} has no version {version}", hint=hint)
            for number in chosen:
                users = rows.users(connection, name, number, even_deleted=permanent)
                _refuse_if_used(name, number, [user for user in users if user[0] != name or user[1] not in chosen])
            rows.delete_versions(connection, name, chosen, permanent=permanent)
            if not rows.live_versions(connection, name):
                connection.execute("DELETE FROM levels WHERE subject = ?", (name,))
        self._ids.clear()
        self._schemas.clear()
        return chosen

    # ----- compatibility ---------------------------------------------------------------------------------------------

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Returns why a schema is not compatible with earlier versions of a subject."""
        _context, name = split_subject(subject)
        with self._database.read() as connection:
            entry = self._prepare(connection, schema, normalize=False)
            return [] if connection is None else self._problems(connection, name, entry)[0]

    def compatibility(self, subject: str | None = None) -> str:
        """Returns the compatibility level of a subject, or the global one if the subject has none of its own."""
        name = _GLOBAL if subject is None else split_subject(subject)[1]
        with self._database.read() as connection:
            return DEFAULT if connection is None else _level(connection, name)

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Sets the compatibility level of a subject, or the global one."""
        name = _GLOBAL if subject is None else split_subject(subject)[1]
        checked = check_level(level)
        with self._database.write() as connection:
            connection.execute("INSERT OR REPLACE INTO levels VALUES (?, ?)", (name, checked))

    def close(self) -> None:
        """Does nothing: no connection stays open."""

    def _problems(self, connection: sqlite3.Connection, subject: str, entry: Entry) -> tuple[list[str], str]:
        level = _level(connection, subject)
        if level == "NONE":
            return [], level
        earlier = [
            (version, self._prepare(connection, self._read(connection, subject, schema_id), normalize=False))
            for version, schema_id in rows.live_versions(connection, subject)
        ]
        return find_problems(level, entry, earlier, _compare), level

    # ----- helpers ---------------------------------------------------------------------------------------------------

    @property
    def _place(self) -> str:
        return str(self._database.path.parent)

    def _read(self, connection: sqlite3.Connection, subject: str, id: int) -> Schema:
        row = rows.schema_row(connection, split_subject(subject)[0], id)
        if row is None:
            raise RegistryError(f"{self._database.path} is damaged: the schema {id} of {subject!r} is missing")
        return read_entry(row, self._database.path)

    def _registered(self, subject: str, version: int, id: int) -> Registered:
        return Registered(id, subject, version, self.schema(id, subject))

    def _prepare(self, connection: sqlite3.Connection | None, schema: Schema, *, normalize: bool) -> Entry:
        """Parses a schema with its references."""
        kind = format_of(schema.type)
        references = tuple(self._fixed(connection, reference) for reference in schema.references)
        texts: dict[Reference, str] = {}
        for reference in references:
            self._collect(connection, reference, schema.type, texts)
        parsed = kind.parse(schema.text, [(reference.name, text) for reference, text in texts.items()])
        normal = kind.normal(parsed)
        text = normal if normalize and kind.keeps_normal else kind.canonical(schema.text)
        return Entry(Schema(text, schema.type, references), parsed, normal, by_normal=normalize)

    def _fixed(self, connection: sqlite3.Connection | None, reference: Reference) -> Reference:
        """Returns a reference with the number of its version, and checks that it exists."""
        _context, name = split_subject(reference.subject)
        versions = dict([] if connection is None else rows.live_versions(connection, name))
        version = max(versions, default=0) if reference.version == _LATEST else reference.version
        if version not in versions:
            hint = f"register it first: millstream schemas register {name} FILE"
            message = (
                f"the schema refers to {reference.name!r}, but subject {name!r} has no version {reference.version}"
            )
            raise InvalidSchemaError(message, hint=hint)
        return Reference(reference.name, name, version)

    def _collect(
        self, connection: sqlite3.Connection | None, reference: Reference, type: str, texts: dict[Reference, str]
    ) -> None:
        """Adds the text of a reference, after those that it needs itself."""
        if reference in texts:
            return
        assert connection is not None
        schema_id = dict(rows.live_versions(connection, reference.subject))[reference.version]
        schema = self._read(connection, reference.subject, schema_id)
        if schema.type != type:
            raise InvalidSchemaError(f"the schema is {type}, and refers to {reference.name!r}, which is {schema.type}")
        for inner in schema.references:
            self._collect(connection, inner, type, texts)
        texts[reference] = schema.text

    def _check_subject(self, connection: sqlite3.Connection | None, subject: str) -> list[tuple[int, int]]:
        """Returns the versions of a subject, with their ids."""
        versions = [] if connection is None else rows.live_versions(connection, subject)
        if not versions:
            raise self._unknown_subject(connection, subject)
        return versions

    def _unknown_subject(self, connection: sqlite3.Connection | None, subject: str) -> UnknownSchemaError:
        known = [] if connection is None else rows.subjects(connection)
        hint = suggestion(subject, known) or (f"it has: {', '.join(known[:20])}" if known else "it has no subjects yet")
        return UnknownSchemaError(f"there is no subject {subject!r} in the registry of {self._place}", hint=hint)


def _refuse_if_used(subject: str, version: int, users: list[tuple[str, int]]) -> None:
    if users:
        names = ", ".join(f"{name} version {number}" for name, number in users)
        hint = "delete those first"
        raise RegistryError(f"{subject} version {version} is used by other schemas: {names}", hint=hint)


def _level(connection: sqlite3.Connection, subject: str) -> str:
    levels = dict(connection.execute("SELECT subject, level FROM levels WHERE subject IN (?, ?)", (subject, _GLOBAL)))
    level = levels.get(subject) or levels.get(_GLOBAL) or DEFAULT
    return str(level)


def _compare(reader: Entry, writer: Entry, sides: Sides) -> list[Finding]:
    return compare(Parsed(reader.schema.type, reader.parsed), Parsed(writer.schema.type, writer.parsed), sides)
