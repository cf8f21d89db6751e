"""The stores of applications, as their last topologies have them. They are kept until an application starts again."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from millstream.core.names import check_name
from millstream.errors import UnknownStoreError, suggestion
from millstream.serde import Serde, SerdeContext
from millstream.serve.data import ServedData
from millstream.serve.stores.serdes import Registry, inner_key_schema, reads_registry, serde_of
from millstream.state.spec import StoreKind

_LOOK_AGAIN = 0.25
"""Seconds after which the report of an application is looked at again: whether it has another run."""
_KEEP = 10.0
"""Seconds after which a definition is read again, while queries use the former one."""


@dataclass(frozen=True)
class StoreDefinition:
    """A store that can be queried.

    Attributes:
        application: The application id.
        name: The name of the store.
        kind: Its kind.
        key: The serde of its keys.
        value: The serde of its values.
        timestamped: Its rows have timestamps.
        window_size_ms: The size of its windows; None: they have no end.
        inclusive: The end of a window belongs to it.
        retention_ms: How long rows stay visible; None is for ever.
        operator: The operator that it belongs to.
        sub_topology: The number of its sub-topology; None if the application has not reported it.
        schemas: The names of the serdes and the schemas of keys and values, as `App.describe` has them.
        inner_key: The schema of the keys in keys with windows, if they have one.
        reads_registry: A serde may have to ask the schema registry, which takes time.
    """

    application: str
    name: str
    kind: StoreKind
    key: Serde[Any]
    value: Serde[Any]
    timestamped: bool
    window_size_ms: int | None
    inclusive: bool
    retention_ms: int | None
    operator: str
    sub_topology: int | None
    schemas: Mapping[str, Any]
    inner_key: Mapping[str, Any] | None
    reads_registry: bool

    @property
    def has_windows(self) -> bool:
        """Whether a row has a window of its own."""
        return self.kind in {"window", "session"}


Stores = Mapping[str, StoreDefinition]


@dataclass
class _Known:
    stores: Stores
    run: str | None
    read: float
    looked: float


class Definitions:
    """The definitions of stores, by application. All methods run in the event loop.

    Args:
        data: The data of the server.
        registry: Returns the schema registry.
    """

    def __init__(self, data: ServedData, registry: Registry) -> None:
        self._data = data
        self._registry = registry
        self._known: dict[str, _Known] = {}
        self._reading: dict[str, asyncio.Task[Stores]] = {}

    async def store(self, application: str, name: str) -> StoreDefinition:
        """Returns the definition of a store.

        Raises:
            UnknownStoreError: There is no such application or store, or the store cannot be queried.
        """
        stores = await self.stores(application)
        if name not in stores:
            check_name(name, "store")
            names = f"it has: {', '.join(sorted(stores))}" if stores else "it has no named stores"
            message = f"application {application!r} has no store {name!r} that can be queried"
            raise UnknownStoreError(message, hint=suggestion(name, stores) or names)
        return stores[name]

    async def stores(self, application: str) -> Stores:
        """Returns the definitions of the stores of an application, by name.

        Raises:
            UnknownApplicationError: There is no such application, or it is not served.
        """
        known = self._known.get(application)
        now = time.monotonic()
        if known is None:
            return await self._read(application)
        if now - known.looked > _LOOK_AGAIN:
            known.looked = now
            if self._run(application) != known.run:
                return await self._read(application)
            if now - known.read > _KEEP:
                self._begin(application)
        return known.stores

    async def _read(self, application: str) -> Stores:
        # Requests share the task, so none of them may cancel it.
        return await asyncio.shield(self._begin(application))

    def _begin(self, application: str) -> asyncio.Task[Stores]:
        task = self._reading.get(application)
        if task is None:
            task = self._reading[application] = asyncio.ensure_future(self._refresh(application))
            task.add_done_callback(lambda done: self._end(application, done))
        return task

    def _end(self, application: str, task: asyncio.Task[Stores]) -> None:
        self._reading.pop(application, None)
        if not task.cancelled():
            task.exception()  # a refresh in the background has no other reader

    async def _refresh(self, application: str) -> Stores:
        run = self._run(application)
        stores = await run_in_threadpool(self._load, application)
        now = time.monotonic()
        self._known[application] = _Known(stores, run, now, now)
        return stores

    def _run(self, application: str) -> str | None:
        run: str | None = self._data.reports.report(application).content.get("run")
        return run

    def _load(self, application: str) -> Stores:
        state = self._data.state(application)
        assert state.started_plan is not None
        plan = state.started_plan
        described = self._described(application)
        names = [name for name in state.queryable_stores or [] if name in plan["stores"]]
        return {name: self._definition(application, name, plan, described.get(name, {})) for name in names}

    def _described(self, application: str) -> dict[str, dict[str, Any]]:
        """The stores as `App.describe` has them, by name."""
        text = self._data.reports.text(application, "topology.json")
        parts = json.loads(text)["sub_topologies"] if text else []
        return {store["name"]: {**store, "part": part["id"]} for part in parts for store in part["stores"]}

    def _definition(
        self, application: str, name: str, topology: Mapping[str, Any], described: Mapping[str, Any]
    ) -> StoreDefinition:
        plan = topology["stores"][name]
        size = window_size(topology["operators"], plan["operator"])

        def serde(part: str) -> Serde[Any]:
            context = SerdeContext(described.get("changelog"), part == "key")
            schema = next(iter(plan.get(f"{part}_schemas", ())), None)
            return serde_of(plan[part], schema, context, self._registry, size)

        return StoreDefinition(
            application,
            name,
            plan["kind"],
            serde("key"),
            serde("value"),
            timestamped=plan.get("timestamped", False),
            window_size_ms=plan.get("window_size_ms"),
            inclusive=plan.get("inclusive", False),
            retention_ms=plan.get("retention_ms"),
            operator=plan["operator"],
            sub_topology=described.get("part"),
            schemas={part: described.get(f"{part}_schema") or {"serde": plan[part]} for part in ("key", "value")},
            inner_key=inner_key_schema(plan),
            reads_registry=reads_registry(plan["key"]) or reads_registry(plan["value"]),
        )


def window_size(operators: Mapping[str, Any], name: str) -> int | None:
    """The size of the windows of an operator, which it may have from the one before it; None if it is not known."""
    while name in operators:
        operator = operators[name]
        window = operator["options"].get("window")
        if isinstance(window, Mapping):
            return window.get("size") if window.get("type") == "time-window" else None
        if len(operator["parents"]) != 1:
            return None
        name = operator["parents"][0]
    return None
