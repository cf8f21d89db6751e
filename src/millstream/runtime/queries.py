"""Queries: the named stores of an application, for reading, from any process."""

from __future__ import annotations

from typing import Any

from millstream.config import Config
from millstream.errors import CorruptLogError, LogError, UnknownStoreError, suggestion
from millstream.log.opening import Place, open_place, place_of
from millstream.plan.fingerprint import kept_stores
from millstream.stages import Topology
from millstream.state.spec import StoreSpec
from millstream.views.reader import open_view


def stores_of(topology: Topology) -> list[StoreSpec]:
    """The stores that a topology keeps."""
    return [spec for specs in kept_stores(topology.plan, topology.facts).values() for spec in specs]


def has_view(spec: StoreSpec, config: Config) -> bool:
    """Whether a store can be queried."""
    return spec.named and spec.viewed and spec.kind != "buffer" and bool(config["store.views"])


def open_store(topology: Topology, config: Config, name: str, *, timestamped: bool) -> Any:
    """Opens a named store for reading.

    Raises:
        UnknownStoreError: The topology has no such store, or it cannot be queried.
    """
    specs = {spec.name: spec for spec in stores_of(topology)}
    known = [spec.name for spec in specs.values() if has_view(spec, config)]
    if name in known:
        place = place_of(config)
        _check_log(place)
        return open_view(place.views, topology.application_id, specs[name], timestamped=timestamped)
    if name in specs:
        hint = "only stores that were given a name can be queried, unless their view is switched off"
        raise UnknownStoreError(f"store {name!r} has no view", hint=hint)
    hint = suggestion(name, known) or f"the stores are: {', '.join(known) or 'none'}"
    raise UnknownStoreError(f"there is no store {name!r}", hint=hint)


def _check_log(place: Place) -> None:
    """Raises a `CorruptLogError` if the embedded log has lost commits: its views would answer as they once were."""
    if place.cluster is None and place.views.exists():
        try:
            open_place(place, create=False).close()
        except CorruptLogError:
            raise
        except LogError:
            pass  # it may be readable all the same, and if not, the view says so
