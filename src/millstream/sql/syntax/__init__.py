"""From text to the syntax tree."""

from __future__ import annotations

from millstream.sql.syntax.parser import (
    parse_columns,
    parse_expression,
    parse_script,
    parse_statement,
    parse_type,
    split_statements,
)
from millstream.sql.syntax.text import key, same, text_of, walk

__all__ = [
    "key",
    "parse_columns",
    "parse_expression",
    "parse_script",
    "parse_statement",
    "parse_type",
    "same",
    "split_statements",
    "text_of",
    "walk",
]
