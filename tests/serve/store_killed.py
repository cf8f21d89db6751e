"""The application of `test_store_kills.py`: it runs until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from millstream import App

APPLICATION = "tally"


def build(data: Path) -> App:
    """Returns the application: the number and the sum of the events of each key, in two stores."""
    app = App(APPLICATION, state_dir=str(data), status="none", commit_interval_ms=20)
    by_key = app.stream("events", key=str, value=int).group_by_key()
    by_key.count(store="counts")
    by_key.sum(value=int, store="sums")
    return app


if __name__ == "__main__":
    build(Path(sys.argv[1])).run(mode="local")
