"""Interactive queries: opens named stores of an application for reading, in any process."""

from __future__ import annotations

from typing import Any

from millstream.config import Config
from millstream.errors import CorruptLogError, LogError, StateError, UnknownStoreError, suggestion
from millstream.log.opening import LogLocation, log_location, open_location
from millstream.stages import Topology
from millstream.state.spec import StoreSpec
from millstream.views.reader import open_view


def has_view(spec: StoreSpec, config: Config) -> bool:
    """Whether a store can be queried."""
    return spec.named and spec.viewed and spec.kind != "buffer" and bool(config["store.views"])


def no_batch_yet(application: str, store: str) -> UnknownStoreError:
    """The error for a store that is part of the topology, and to which no batch has written yet."""
    return UnknownStoreError(
        f"store {store!r} of application {application!r} has no rows yet: no batch has written to it",
        hint="run the application; while it runs, try again in a moment",
    )


def queryable(topology: Topology, config: Config) -> list[str]:
    """The names of the stores of a topology that can be queried."""
    return [spec.name for spec in topology.stores if has_view(spec, config)]


def open_store(topology: Topology, config: Config, name: str, *, timestamped: bool) -> Any:
    """Opens a named store for reading.

    Raises:
        UnknownStoreError: The topology has no such store, it cannot be queried, or no batch has written to it yet.
    """
    specs = {spec.name: spec for spec in topology.stores}
    viewed = queryable(topology, config)
    if name in viewed:
        place = log_location(config)
        _check_log(place)
        try:
            return open_view(place.views, topology.application_id, specs[name], timestamped=timestamped)
        except StateError as error:
            if not isinstance(error, UnknownStoreError) and place.views.exists():
                raise
            raise no_batch_yet(topology.application_id, name) from error
    if name in specs:
        hint = "only stores that were given a name can be queried, unless their view is switched off"
        raise UnknownStoreError(f"store {name!r} has no view", hint=hint)
    hint = suggestion(name, viewed) or f"the stores are: {', '.join(viewed) or 'none'}"
    raise UnknownStoreError(f"there is no store {name!r}", hint=hint)


def _check_log(place: LogLocation) -> None:
    """Raises a `CorruptLogError` if the embedded log has lost commits: its views would answer as they once were."""
    if place.cluster is None and place.views.exists():
        try:
            open_location(place, create=False).close()
        except CorruptLogError:
            raise
        except LogError:
            pass  # it may be readable all the same, and if not, the view says so
