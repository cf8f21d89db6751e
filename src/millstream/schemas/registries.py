"""The schema registry of an application, as its serdes refer to it: each process opens its own.

A serde goes to other processes in a pickle, so it holds neither a client nor a secret. It holds the name of the
registry. A process that runs the application provides the configuration under that name, and opens the registry when a
serde first needs it.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from millstream.errors import RegistryError
from millstream.registry.api import SchemaRegistry


class SerdeDefaults(NamedTuple):
    """The options of serdes that the configuration sets, unless a serde has its own.

    Attributes:
        auto_register: Schemas are registered.
        use_latest: Values are written with the latest version of the subject.
        normalize: The registry compares schemas without regard to their form.
        key_strategy: The strategy for the subjects of keys.
        value_strategy: The strategy for the subjects of values.
    """

    auto_register: bool = True
    use_latest: bool = False
    normalize: bool = False
    key_strategy: str = "TopicName"
    value_strategy: str = "TopicName"


class ApplicationRegistry(NamedTuple):
    """The registry of an application, by its name.

    Attributes:
        name: The name under which a process has the registry, or its configuration.
        defaults: The options that the configuration sets.
    """

    name: str
    defaults: SerdeDefaults = SerdeDefaults()

    def open(self) -> SchemaRegistry:
        """Returns the registry; opens it when it is first used in this process.

        Raises:
            RegistryError: The process does not have its configuration.
        """
        at = os.getpid(), self.name  # a forked process must not use the connections of its parent
        with _lock:
            registry = _opened.get(at)
            if registry is None:
                source = _sources.get(self.name)
                if source is None:
                    raise RegistryError(
                        "this process does not have the configuration of the schema registry",
                        hint="a serde of an application works in the processes that run the application",
                    )
                registry = _opened[at] = source.open()
            return registry


class _Source(NamedTuple):
    """How a process opens a registry."""

    open: Callable[[], SchemaRegistry]
    config: Any = None


# Reentrant: a garbage collection in a thread that holds the lock may finalize a test driver, which calls `forget`.
_lock = threading.RLock()
_sources: dict[str, _Source] = {}
_opened: dict[tuple[int, str], SchemaRegistry] = {}
_numbers = itertools.count(1)


def registry_of(application_id: str, config: Mapping[str, Any], directory: Path | None = None) -> ApplicationRegistry:
    """Returns the registry of an application, and makes its configuration known to this process.

    Args:
        application_id: The application id.
        config: The configuration of the application.
        directory: The data directory of the embedded registry; by default that of the configuration.
    """

    def open_here() -> SchemaRegistry:
        from millstream.registry.api import open_registry

        return open_registry(config, directory)

    name = f"{application_id} {_location(config)}"
    with _lock:
        before = _sources.get(name)
        if before is None or before.config != config:
            _opened.pop((os.getpid(), name), None)
        if before is None or before.config != config or directory is not None:
            _sources[name] = _Source(open_here, config)
    return ApplicationRegistry(name, _defaults(config))


def registry_for(registry: SchemaRegistry, config: Mapping[str, Any] | None = None) -> ApplicationRegistry:
    """Returns a reference to a registry that is open in this process, for the test driver and for tests."""
    name = f"open-{next(_numbers)}"
    with _lock:
        _sources[name] = _Source(lambda: registry)
    return ApplicationRegistry(name, SerdeDefaults() if config is None else _defaults(config))


def forget(reference: ApplicationRegistry) -> None:
    """Drops a registry of `registry_for`."""
    with _lock:
        _sources.pop(reference.name, None)
        _opened.pop((os.getpid(), reference.name), None)


def _location(config: Mapping[str, Any]) -> str:
    """The address of the registry, without the user information that a URL may have; or the data directory."""
    addresses = config.get("schema.registry.url")
    if addresses is None:
        return str(config.get("state.dir") or "")
    parts = [urlsplit(url.strip()) for url in ([addresses] if isinstance(addresses, str) else addresses)]
    return ",".join(f"{part.scheme}://{part.netloc.rpartition('@')[2]}{part.path}" for part in parts)


def _defaults(config: Mapping[str, Any]) -> SerdeDefaults:
    return SerdeDefaults(
        config["auto.register.schemas"],
        config["use.latest.version"],
        config["normalize.schemas"],
        config["key.subject.name.strategy"],
        config["value.subject.name.strategy"],
    )
