"""The operators by family, under their names in the plan. Importing this package registers all of them."""

from __future__ import annotations

from millstream.engine.operators import (  # noqa: F401
    aggregates,
    foreign_keys,
    process,
    session_windows,
    sinks,
    sliding_windows,
    sources,
    stateless,
    stream_joins,
    suppress,
    table_joins,
    tables,
    windows,
)
