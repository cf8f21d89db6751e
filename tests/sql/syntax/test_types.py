"""Types and columns."""

from __future__ import annotations

import pytest

from millstream.errors import SqlSyntaxError
from millstream.sql.syntax import parse_columns, parse_type
from millstream.sql.syntax.text import type_text
from millstream.sql.syntax.tree import ArrayTypeRef, KnownType, MapTypeRef, NamedType, StructTypeRef


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", "BOOLEAN"),
        ("Int", "INTEGER"),
        ("integer", "INTEGER"),
        ("varchar", "STRING"),
        ("VARCHAR(10)", "STRING"),
        ("varchar(STRING, 3)", "STRING"),
        ("`bytes`", "BYTES"),
        ("decimal(4,2)", "DECIMAL(4, 2)"),
        ("array<map<string, time>>", "ARRAY<MAP<STRING, TIME>>"),
        ("int array array", "ARRAY<ARRAY<INTEGER>>"),
        ("struct<a int, `b` struct<key date>>", "STRUCT<`A` INTEGER, `b` STRUCT<`KEY` DATE>>"),
        ("struct<>", "STRUCT<>"),
        ("STRUCT< >", "STRUCT<>"),
    ],
)
def test_known_types(text: str, expected: str) -> None:
    type_ = parse_type(text)

    assert isinstance(type_, KnownType)
    assert type_text(type_) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ADDRESS", NamedType),
        ("ARRAY<ADDRESS>", ArrayTypeRef),
        ("MAP<STRING, ADDRESS>", MapTypeRef),
        ("STRUCT<`A` ARRAY<ADDRESS>, `B` INTEGER>", StructTypeRef),
    ],
)
def test_types_with_names_that_are_not_yet_known(text: str, kind: type) -> None:
    type_ = parse_type(text)

    assert type(type_) is kind
    assert type_text(type_) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "array<>",
        "map<string>",
        "struct<a>",
        "struct<a int,>",
        "struct<stream int>",
        "decimal",
        "decimal(4)",
        "decimal(0, 0)",
        "decimal(2, -1)",
        "decimal(2, 3)",
        "decimal(2.5, 1)",
        "int(KEY)",
        "string()",
        "int int",
        "array<int",
    ],
)
def test_refused_types(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_type(text)


def test_columns() -> None:
    columns = parse_columns("`k` STRING KEY, p INT PRIMARY KEY, v BIGINT, h BYTES HEADER('x''y'), all_ BYTES HEADERS")

    assert [(c.name, c.role, c.header) for c in columns] == [
        ("k", "KEY", None),
        ("P", "PRIMARY KEY", None),
        ("V", "VALUE", None),
        ("H", "HEADER", "x'y"),
        ("ALL_", "HEADERS", None),
    ]
    assert parse_columns(" ") == ()


@pytest.mark.parametrize("text", ["a", "a int b int", "a int primary", "a int header", "a int header(x)", "a int,"])
def test_refused_columns(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_columns(text)
