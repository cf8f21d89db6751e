"""Hides personal fields from viewers: those that a type, a schema or a contract of an application tags.

The tags are those of the topologies that applications report. They stay with values of the same type: in repartition
topics, stores and changelogs. In all topics and stores of an application, each field with the name of a tagged one is
hidden, too, because functions may have copied it; except for topics that are read with a type of their own. Values
under other names, which functions compute from personal fields, are not known, and are shown.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from millstream.core.records import ERROR_HEADER
from millstream.serve.access.roles import Principal
from millstream.serve.observe.reports import Reports
from millstream.serve.operations.tagged_fields import HIDDEN, TaggedFields, plain_name, tagged_fields

_MESSAGES = {f"{ERROR_HEADER}message", f"{ERROR_HEADER}stacktrace"}
_BYTES = "_base64"


class Mask:
    """Hides the tagged fields of keys and values.

    >>> mask = Mask(value=TaggedFields.of([("customer.mail", ["pii"])]))
    >>> mask.record({"key": "a", "value": {"id": 7, "customer": {"mail": "anna@example.com"}}})
    {'key': 'a', 'value': {'id': 7, 'customer': {'mail': '[hidden]'}}}

    Args:
        key: The tagged fields of keys.
        value: The tagged fields of values.
        names: Names of fields of values that are hidden wherever they are.
    """

    def __init__(
        self, key: TaggedFields | None = None, value: TaggedFields | None = None, names: frozenset[str] = frozenset()
    ) -> None:
        self._parts = {"key": key or TaggedFields(), "value": value or TaggedFields()}
        self.names = names

    @property
    def is_empty(self) -> bool:
        """Whether nothing is hidden."""
        return not self.names and not any(self._parts.values())

    def hides(self, columns: Collection[str] | None) -> bool:
        """Whether it hides something of rows with these columns; None: of any record.

        >>> mask = Mask(names=frozenset({"mail"}))
        >>> mask.hides(None), mask.hides(["ID", "MAIL"]), mask.hides(["ID"])
        (True, True, False)
        """
        if columns is None or any(self._parts.values()):
            return not self.is_empty
        names = {name.casefold() for name in self.names}
        return any(column.casefold() in names for column in columns)

    @property
    def hides_keys(self) -> bool:
        """Whether keys have fields that are hidden."""
        return bool(self._parts["key"])

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a record or a row with its personal fields hidden. Bytes that were not decoded are hidden whole."""
        return dict(record) if self.is_empty else dict(self._hidden(record))

    def _hidden(self, record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, part in record.items():
            fields = self._parts.get(name.removesuffix(_BYTES))
            if fields is None:
                yield name, part
                continue
            names = self.names if name.startswith("value") else frozenset()
            if not name.endswith(_BYTES):
                yield name, HIDDEN if _mentions(part, names) else fields.hide(part, names)
            elif fields or names:
                yield name, HIDDEN
            else:
                yield name, part


NOTHING_HIDDEN = Mask()


class Masks:
    """The personal fields of the topics and stores of a server. It may be used from any thread.

    Args:
        reports: The reports of the applications.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Any, dict[str, Mask], dict[str, Mask]]] = {}

    def topic(self, name: str) -> Mask:
        """The personal fields of the records of a topic: all those that any application tags."""
        applications = [self._of(application) for application in self._reports.applications()]
        masks = [topics[name] for topics, _stores in applications if name in topics]
        if masks:
            return _union(masks)
        # Dead letters of any topic, for example.
        return Mask(names=frozenset().union(*(mask.names for topics, _ in applications for mask in topics.values())))

    def store(self, application: str, store: str) -> Mask:
        """The personal fields of the rows of a store."""
        return self._of(application)[1].get(store, Mask())

    def records(self, principal: Principal, topic: str, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns records of a topic as the sender of a request may see them.

        Args:
            principal: The sender.
            topic: The topic.
            records: Records with ``key`` and ``value`` as JSON, or ``key_base64`` and ``value_base64``.
        """
        if principal.sees_personal_fields:
            return list(records)
        mask = self.topic(topic)
        return list(records) if mask.is_empty else [_without_messages(mask.record(record)) for record in records]

    def rows(
        self, principal: Principal, application: str, store: str, rows: Iterable[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Returns rows of a store as the sender of a request may see them.

        Args:
            principal: The sender.
            application: The application id.
            store: The store.
            rows: Rows with ``key`` and ``value`` as JSON.
        """
        if principal.sees_personal_fields:
            return list(rows)
        mask = self.store(application, store)
        return [mask.record(row) for row in rows]

    def _of(self, application: str) -> tuple[dict[str, Mask], dict[str, Mask]]:
        """The masks of the topics and stores of an application."""
        topology = self._reports.topology(application)
        with self._lock:
            known = self._known.get(application)
            if known is None or known[0] is not topology:
                known = self._known[application] = (topology, *_masks(topology))
            return known[1], known[2]


def _masks(topology: Mapping[str, Any]) -> tuple[dict[str, Mask], dict[str, Mask]]:
    """The masks of the topics and of the stores of a described topology."""
    parts = topology.get("sub_topologies", [])
    nodes: list[Mapping[str, Any]] = [node for part in parts for node in part["nodes"]]
    fields = _propagated(nodes)
    stores: list[Mapping[str, Any]] = [store for part in parts for store in part["stores"]]
    names = frozenset(name for each in fields.values() for name in each.names())
    of_topics: dict[str, Mask] = {}
    of_stores: dict[str, Mask] = {}
    for node in nodes:
        for topic in node["topics"]:
            is_declared = node["kind"] in {"source", "global_table"} and _type_of(node)[1] not in _UNKNOWN_TYPES
            mask = Mask(
                tagged_fields(_schema(node, "key")), fields[node["name"]], frozenset() if is_declared else names
            )
            of_topics[topic] = _union([mask, of_topics[topic]]) if topic in of_topics else mask
    for store in stores:
        value = tagged_fields(store.get("value_schema"))
        for node in nodes:
            if store["name"] in node["stores"] and _type_of(node) == _described(store.get("value_schema")):
                value.add(fields[node["name"]])
        mask = Mask(tagged_fields(store.get("key_schema")), value, names)
        of_stores[store["name"]] = mask
        if store.get("changelog"):
            of_topics[store["changelog"]] = mask
    return of_topics, of_stores


def _propagated(nodes: list[Mapping[str, Any]]) -> dict[str, TaggedFields]:
    """The tagged fields of the values of each node: its own, and those of nodes before it with values of its type."""
    fields: dict[str, TaggedFields] = {}
    writers: dict[str, list[Mapping[str, Any]]] = {}
    by_name = {node["name"]: node for node in nodes}
    for node in nodes:
        fields[node["name"]] = tagged_fields(_schema(node, "value"))
        fields[node["name"]].add(TaggedFields.of(node.get("tags", {}).items()))
        if node["type"] == "sink":
            for topic in node["topics"]:
                writers.setdefault(topic, []).append(node)
    has_changed = True
    while has_changed:
        has_changed = False
        for node in nodes:
            before = [by_name[name] for name in node["parents"]]
            if node["type"] == "source":
                before += [writer for topic in node["topics"] for writer in writers.get(topic, ())]
            for other in before:
                if _type_of(node) == _type_of(other):
                    has_changed = fields[node["name"]].add(fields[other["name"]]) or has_changed
    return fields


def _schema(node: Mapping[str, Any], part: str) -> Mapping[str, Any] | None:
    schema: Mapping[str, Any] | None = (node.get("schema") or {}).get(part)
    return schema


def _type_of(node: Mapping[str, Any]) -> tuple[Any, Any]:
    return _described(_schema(node, "value"))


def _described(schema: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """The serde and the type of a schema."""
    return (None, None) if schema is None else (schema.get("serde"), schema.get("type"))


_UNKNOWN_TYPES = {None, "ANY"}


def _mentions(value: Any, names: frozenset[str]) -> bool:
    """Whether a text is JSON that has a field of such a name."""
    if not (names and isinstance(value, str) and value.lstrip()[:1] in {"{", "["}):
        return False
    try:
        return _has(json.loads(value), names)
    except (ValueError, RecursionError):
        return any(name in plain_name(value) for name in names)


def _has(value: Any, names: frozenset[str]) -> bool:
    if isinstance(value, dict):
        return any(plain_name(name) in names or _has(part, names) for name, part in value.items())
    return isinstance(value, list) and any(_has(part, names) for part in value)


def _without_messages(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the texts about errors that dead letters have as headers: they may quote the failed record."""
    headers = record.get("headers", ())
    if any(name in _MESSAGES for name, _value in headers):
        record["headers"] = [[name, HIDDEN if name in _MESSAGES else value] for name, value in headers]
    return record


def _union(masks: list[Mask]) -> Mask:
    if len(masks) == 1:
        return masks[0]
    key, value, names = TaggedFields(), TaggedFields(), frozenset[str]()
    for mask in masks:
        key.add(mask._parts["key"])
        value.add(mask._parts["value"])
        names |= mask.names
    return Mask(key, value, names)
