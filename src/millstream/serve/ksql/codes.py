"""The name of the catalog, and the codes of errors that are not those of a statement."""

from __future__ import annotations

NAME = "sql"
"""The name of the catalog: that of the shell, too, so both have the same streams, tables and queries."""

FORBIDDEN, NOT_FOUND, NOT_ACCEPTABLE, TOO_MANY, UNAVAILABLE = 40300, 40400, 40600, 42900, 50300
"""Codes of ksqlDB's API; the first three digits are the status of HTTP."""
