"""The catalogue of the functions of the dialect."""

from __future__ import annotations

from functools import cache

from millstream.sql.functions.catalogue import Catalogue


@cache
def builtin_catalogue() -> Catalogue:
    """Returns the catalogue of all built-in functions. Its modules are imported with the first call."""
    from millstream.sql.functions.aggregates import AGGREGATES  # noqa: PLC0415  (modules that few programs need)
    from millstream.sql.functions.scalar import SCALARS  # noqa: PLC0415
    from millstream.sql.functions.tables import TABLE_FUNCTIONS  # noqa: PLC0415

    return Catalogue((*SCALARS, *AGGREGATES, *TABLE_FUNCTIONS))
