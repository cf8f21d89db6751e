"""Applications with workers on a cluster, as targets of child processes: see `tests.clean_children`.

The server of the children was started before the broker. So each child gets the address of the broker.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.fault import real_time
from tests.runtime.real_time import guarded


def run_smoke(servers: str, directory: Path, point: str | None, config: dict[str, Any]) -> None:
    """Runs the application of `tests.fault.smoke` to its end, or to a crash at a failpoint."""
    os.environ["MILLSTREAM_BOOTSTRAP_SERVERS"] = servers
    real_time.run_to_point(directory, point, config)


def run_guarded(servers: str, directory: Path, guarantee: str, point: str) -> None:
    """Runs the application of `tests.runtime.real_time.guarded` beside its producer, to a crash at a failpoint."""
    os.environ["MILLSTREAM_BOOTSTRAP_SERVERS"] = servers
    guarded.run_to_point(directory, guarantee, point)
