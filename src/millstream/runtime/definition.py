"""An application as the runtime takes it: a topology, which carries the application id, and a configuration."""

from __future__ import annotations

from typing import Protocol

from millstream.config import Config
from millstream.stages import Topology


class ApplicationDefinition(Protocol):
    """Anything that defines an application; `millstream.App` does."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    def topology(self) -> Topology:
        """The topology as it runs: optimised, and cut into sub-topologies."""
        ...
