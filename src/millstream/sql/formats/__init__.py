"""Formats: the columns of keys and values as bytes, and what each format can carry.

Formats know types and values, nothing of statements and plans.
"""

from __future__ import annotations

from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats.codecs import Codec, FormatSerde, codec
from millstream.sql.formats.declarations import (
    DELIMITER,
    FORMATS,
    FULL_NAME,
    NULLABLE,
    Format,
    check_columns,
    check_format,
    check_wrapping,
    format_of,
)
from millstream.sql.formats.internal import RowSerde
from millstream.sql.formats.with_schemas import derived_schema, inferred_columns, subject_of

__all__ = [
    "DELIMITER",
    "FORMATS",
    "FULL_NAME",
    "NULLABLE",
    "Codec",
    "Column",
    "Format",
    "FormatInfo",
    "FormatSerde",
    "RowSerde",
    "check_columns",
    "check_format",
    "check_wrapping",
    "codec",
    "derived_schema",
    "format_of",
    "inferred_columns",
    "subject_of",
]
