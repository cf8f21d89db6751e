"""A schema registry in memory, for tests."""

from __future__ import annotations

import itertools

from millstream.errors import UnknownSchemaError
from millstream.registry.api import Registered, Schema


class MemoryRegistry:
    """A schema registry in memory. It accepts every schema: it does not check compatibility.

    >>> registry = MemoryRegistry()
    >>> registry.register("ages-value", Schema('"int"'))
    1
    >>> registry.latest("ages-value").version
    1
    """

    def __init__(self) -> None:
        self._ids: dict[Schema, int] = {}
        self._schemas: dict[int, Schema] = {}
        self._subjects: dict[str, list[Registered]] = {}
        self._levels: dict[str | None, str] = {None: "NONE"}
        self._numbers = itertools.count(1)

    def schema(self, id: int, subject: str | None = None) -> Schema:
        """Returns the schema of an id."""
        if id not in self._schemas:
            raise UnknownSchemaError(f"there is no schema {id}")
        return self._schemas[id]

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Registers a schema, and returns its id."""
        versions = self._subjects.setdefault(subject, [])
        for registered in versions:
            if registered.schema == schema:
                return registered.id
        number = self._ids.get(schema)
        if number is None:
            number = self._ids[schema] = next(self._numbers)
            self._schemas[number] = schema
        version = versions[-1].version + 1 if versions else 1
        versions.append(Registered(number, subject, version, schema))
        return number

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Returns the version of a subject that has a schema."""
        for registered in self._subjects.get(subject, ()):
            if registered.schema == schema:
                return registered
        raise UnknownSchemaError(f"the schema is not registered under subject {subject!r}")

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject."""
        return self._versions(subject)[-1]

    def version(self, subject: str, version: int) -> Registered:
        """Returns a version of a subject."""
        for registered in self._versions(subject):
            if registered.version == version:
                return registered
        raise UnknownSchemaError(f"subject {subject!r} has no version {version}")

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject."""
        return [registered.version for registered in self._versions(subject)]

    def subjects(self) -> list[str]:
        """Returns the subjects, in alphabetical order."""
        return sorted(subject for subject, versions in self._subjects.items() if versions)

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Returns an empty list: every schema is accepted."""
        return []

    def compatibility(self, subject: str | None = None) -> str:
        """Returns the level that was set; it has no effect."""
        return self._levels.get(subject, self._levels[None])

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Sets a level, which has no effect."""
        self._levels[subject] = level

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Deletes a version of a subject, or all."""
        gone = [r.version for r in self._versions(subject) if version is None or r.version == version]
        self._subjects[subject] = [r for r in self._subjects[subject] if r.version not in gone]
        return gone

    def close(self) -> None:
        """Does nothing."""

    def _versions(self, subject: str) -> list[Registered]:
        versions = self._subjects.get(subject)
        if not versions:
            raise UnknownSchemaError(f"there is no subject {subject!r}")
        return versions
