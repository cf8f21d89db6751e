"""A registry with Confluent's API: an adapter of the client of confluent-kafka, with caches for when it is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from millstream.errors import IncompatibleSchemaError, RegistryError, SchemaError, UnknownSchemaError
from millstream.registry.api import Reference, Registered, Schema, SchemaType
from millstream.registry.confluent.client import make_client
from millstream.registry.confluent.requests import Requests
from millstream.registry.contexts import DEFAULT_CONTEXT, split_subject
from millstream.registry.explanations import effective_level, explain, incompatible
from millstream.registry.formats import TYPES
from millstream.registry.levels import check_level

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema, SchemaRegistryClient

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_MISSING_SECONDS = 5.0


class _Cache(Generic[K, V]):
    """The newest entries. Reading takes no lock: it happens for each record."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[K, V] = {}
        self.get = self._entries.get

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        while len(self._entries) > self._capacity:
            del self._entries[next(iter(self._entries))]

    def clear(self) -> None:
        self._entries.clear()


class ConfluentRegistry:
    """A registry with Confluent's API.

    Ids, schemas and versions never change, so each is requested once. Deletions by this registry clear the caches.

    Args:
        config: The configuration, with ``schema.registry.url``.
        report: Receives a message while a request waits for the registry; by default, it is logged.
        make: Makes a client.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        report: Callable[[str], None] | None = None,
        make: Callable[[Mapping[str, Any]], Any] = make_client,
    ) -> None:
        self._requests = Requests(config, report, make)
        self._lock = threading.RLock()  # one request for a schema that several threads need at once
        self._fresh_seconds = config["schema.registry.cache.latest.ttl.sec"]
        capacity = config["schema.registry.cache.capacity"]
        self._schemas: _Cache[tuple[str, int], Schema] = _Cache(capacity)
        self._missing: _Cache[tuple[str, int], tuple[float, UnknownSchemaError]] = _Cache(capacity)
        self._ids: _Cache[tuple[str, Schema, bool], int] = _Cache(capacity)
        self._lookups: _Cache[tuple[str, Schema, bool], Registered] = _Cache(capacity)
        self._versions: _Cache[tuple[str, int], Registered] = _Cache(capacity)
        self._latest: _Cache[str, tuple[float, Registered]] = _Cache(capacity)

    def __repr__(self) -> str:
        return f"ConfluentRegistry({self._requests.place!r})"

    # ----- reading ---------------------------------------------------------------------------------------------------

    def schema(self, id: int, subject: str | None = None) -> Schema:
        """Returns the schema of an id."""
        context = DEFAULT_CONTEXT if subject is None else split_subject(subject)[0]
        known = self._schemas.get((context, id))
        if known is not None:
            return known
        scope = subject if context != DEFAULT_CONTEXT else None
        with self._lock:
            known = self._schemas.get((context, id))
            if known is None:
                self._refuse_missing(context, id)
                try:
                    known = self._requests.send(
                        lambda client: _checked(client.get_schema(id, subject_name=scope)), f"schema with the id {id}"
                    )
                except UnknownSchemaError as error:
                    self._missing.put((context, id), (time.monotonic(), error))
                    raise
                self._schemas.put((context, id), known)
            return known

    def _refuse_missing(self, context: str, id: int) -> None:
        """Raises the last error for an id that was unknown a moment ago: many records may have it."""
        missing = self._missing.get((context, id))
        if missing is not None and time.monotonic() - missing[0] < _MISSING_SECONDS:
            raise UnknownSchemaError(missing[1].message, hint=missing[1].hint)

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Returns the version of a subject that has a schema."""
        key = subject, schema, normalize
        with self._lock:
            found = self._lookups.get(key)
            if found is None:
                found = self._requests.send(
                    lambda client: _registered(
                        client.lookup_schema(subject, _to_client(schema), normalize_schemas=normalize), subject
                    ),
                    f"such schema under subject {subject!r}",
                )
                self._lookups.put(key, found)
            return found

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject. While the registry is away, it is the latest one that was known."""
        known = self._latest.get(subject)
        now = time.monotonic()
        if known is not None and now - known[0] < self._fresh_seconds:
            return known[1]
        with self._lock:
            try:
                latest = self._requests.send(
                    lambda client: _registered(client.get_latest_version(subject), subject),
                    f"subject {subject!r}",
                    retry=known is None,
                )
            except RegistryError as error:
                if known is None or not error.may_pass:
                    raise
                latest = known[1]
            self._latest.put(subject, (time.monotonic(), latest))
            return latest

    def version(self, subject: str, version: int) -> Registered:
        """Returns a version of a subject."""
        with self._lock:
            found = self._versions.get((subject, version))
            if found is None:
                found = self._requests.send(
                    lambda client: _registered(client.get_version(subject, version), subject),
                    f"version {version} of subject {subject!r}",
                )
                self._versions.put((subject, version), found)
            return found

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject that are not deleted."""
        what = f"subject {subject!r}"
        versions = self._requests.send(lambda client: _list_of(int, client.get_versions(subject)), what)
        if not versions:
            raise UnknownSchemaError(f"the schema registry at {self._requests.place} has no {what}")
        return sorted(versions)

    def subjects(self) -> list[str]:
        """Returns the subjects that are not deleted."""
        return sorted(self._requests.send(lambda client: _list_of(str, client.get_subjects()), "its subjects"))

    # ----- writing ---------------------------------------------------------------------------------------------------

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Registers a schema as the next version of a subject, unless it is one of its versions, and returns its id."""
        key = subject, schema, normalize
        with self._lock:
            known = self._ids.get(key)
            if known is None:
                known = self._register(subject, schema, normalize=normalize)
                self._ids.put(key, known)
                self._latest.clear()
                if not normalize:
                    self._schemas.put((split_subject(subject)[0], known), schema)
            return known

    def _register(self, subject: str, schema: Schema, *, normalize: bool) -> int:
        try:
            return self._requests.send(
                lambda client: _number(
                    client.register_schema(subject, _to_client(schema), normalize_schemas=normalize)
                ),
                f"subject {subject!r}",
            )
        except IncompatibleSchemaError as error:
            raise self._explained(subject, schema, error) from None

    def _explained(self, subject: str, schema: Schema, refusal: IncompatibleSchemaError) -> IncompatibleSchemaError:
        """Returns the refusal with the level of the subject and the paths of fields, as far as the registry tells."""
        try:
            problems = self.problems(subject, schema) or list(refusal.problems)
            return incompatible(subject, self.compatibility(subject), problems)
        except SchemaError:
            return incompatible(subject, "unknown", list(refusal.problems))

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Deletes a version of a subject, or all, and returns the deleted versions."""
        with self._lock:
            try:
                return self._delete(subject, version, permanent=permanent)
            finally:
                for cache in (self._schemas, self._ids, self._lookups, self._versions, self._latest):
                    cache.clear()

    def _delete(self, subject: str, version: int | None, *, permanent: bool) -> list[int]:
        what = f"subject {subject!r}" if version is None else f"version {version} of subject {subject!r}"

        def request(client: SchemaRegistryClient, *, permanent: bool) -> list[int]:
            if version is None:
                return sorted(_list_of(int, client.delete_subject(subject, permanent=permanent)))
            client.delete_version(subject, version, permanent=permanent)
            return [version]

        try:
            deleted = self._requests.send(lambda client: request(client, permanent=False), what)
        except UnknownSchemaError:
            if not permanent:
                raise
            deleted = []  # it may be deleted already, but not permanently
        return self._requests.send(lambda client: request(client, permanent=True), what) if permanent else deleted

    # ----- compatibility ---------------------------------------------------------------------------------------------

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Returns why a schema is not compatible with earlier versions of a subject.

        The registry decides. Its reasons rarely name the field, so the reasons are those of the embedded registry, as
        far as it agrees.
        """
        try:
            # A registry may compare with all versions, whatever the level, unless the latest one is named.
            versions = "versions" if effective_level(self, subject).endswith("_TRANSITIVE") else "versions/latest"
            works, messages = self._requests.send(
                lambda client: _compatibility(client, subject, versions, schema), f"subject {subject!r}"
            )
        except UnknownSchemaError:
            return []  # a new subject
        if works:
            return []
        return explain(self, subject, schema) or messages or ["the schema: the registry gives no reason"]

    def compatibility(self, subject: str | None = None) -> str:
        """Returns the compatibility level of a subject, or the global one if the subject has none of its own."""
        if subject is not None:
            try:
                what = f"compatibility level of subject {subject!r}"
                return self._requests.send(lambda client: _level(client.get_compatibility(subject)), what)
            except UnknownSchemaError:
                pass
        return self._requests.send(lambda client: _level(client.get_compatibility()), "compatibility level")

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Sets the compatibility level of a subject, or the global one."""
        checked = check_level(level)
        what = "compatibility level" if subject is None else f"subject {subject!r}"
        self._requests.send(lambda client: client.set_compatibility(subject, checked), what)

    def close(self) -> None:
        """Closes the connections to the registry."""
        self._requests.close()


# ----- conversions: an answer of the wrong form raises a ValueError, which `Requests` translates ---------------------


def _to_client(schema: Schema) -> Any:
    from confluent_kafka.schema_registry import Schema as ClientSchema, SchemaReference  # noqa: PLC0415

    references = [SchemaReference(*reference) for reference in schema.references]
    return ClientSchema(schema.text, schema.type, references)


def _checked(schema: Any) -> Schema:
    text, kind = schema.schema_str, schema.schema_type or "AVRO"
    if not isinstance(text, str) or kind not in TYPES:
        raise ValueError(f"a schema of type {kind!r} with the text {text!r}")
    references = (
        Reference(str(each.name), str(each.subject), _number(each.version)) for each in schema.references or ()
    )
    return Schema(text, cast("SchemaType", kind), tuple(references))


def _registered(answer: RegisteredSchema, subject: str) -> Registered:
    return Registered(_number(answer.schema_id), subject, _number(answer.version), _checked(answer.schema))


def _number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} in place of a number")
    return value


def _list_of(kind: type[V], values: Any) -> list[V]:
    if not isinstance(values, list) or not all(type(value) is kind for value in values):
        raise ValueError(f"{values!r} in place of a list")
    return values


def _level(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} in place of a compatibility level")  # noqa: TRY004
    return value


def _compatibility(client: SchemaRegistryClient, subject: str, versions: str, schema: Schema) -> tuple[bool, list[str]]:
    """Asks whether a schema is compatible. The method of the client would drop the reasons."""
    from urllib.parse import quote  # noqa: PLC0415  (needed for this request only)

    path = f"compatibility/subjects/{quote(subject, safe='')}/{versions}?verbose=true"
    answer = client._rest_client.post(path, body=_to_client(schema).to_dict())
    works, messages = answer["is_compatible"], answer.get("messages") or []
    if not isinstance(works, bool):
        raise ValueError(f"{works!r} in place of true or false")  # noqa: TRY004
    return works, _list_of(str, messages)
