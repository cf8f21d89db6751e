"""Errors that teach, and bounds of time and depth for any text."""

from __future__ import annotations

import random
import sys
import time
from types import FrameType

import pytest

from millstream.errors import SqlError, SqlSyntaxError
from millstream.sql.syntax import parse_expression, parse_script, parse_type, text_of
from millstream.sql.syntax.cursor import MAX_COLUMNS, MAX_DEPTH


@pytest.mark.parametrize(
    ("script", "place", "message", "hint"),
    [
        ("creat stream s;", (1, 1), "Unknown statement 'creat'", "did you mean 'CREATE'?"),
        ("select a\nfrm s;", (2, 5), "expected ',' or FROM, found 's'", "did you mean 'FROM'?"),
        ("select a from s were b;", (1, 22), "found 'b'", "did you mean 'WHERE'?"),
        ("select a from s where a groop by a;", (1, 25), "found 'groop'", "did you mean 'GROUP'?"),
        ("select a from stream;", (1, 15), '"stream" is a reserved keyword', "quote it: `STREAM`"),
        ("select a from s order by a;", (1, 23), "found 'by'", None),
        ("select a from s where a order by b;", (1, 25), "found 'order'", "has no ORDER BY"),
        ("select a from s limit 1 where b;", (1, 25), "WHERE is not allowed here", "the order of the clauses"),
        ("select a == 1 from s;", (1, 11), "unexpected '='", "a single ="),
        ("select 'a from s;", (1, 8), "this string has no end", "''"),
        ("create stream s (a int kye);", (1, 24), "found 'kye'", "did you mean 'KEY'?"),
        ("create steam s;", (1, 8), "expected STREAM, TABLE", "did you mean 'STREAM'?"),
        ("create stream s (a int) with (x='y' z=1);", (1, 37), "expected ')', found 'z'", None),
        ("select a from s window tumbling (size 1 secnds);", (1, 41), "found 'secnds'", "'SECONDS'"),
        ("insert into s vales (1);", (1, 15), "found 'vales'", "'VALUES'"),
    ],
)
def test_errors_tell_the_place_and_the_remedy(
    script: str, place: tuple[int, int], message: str, hint: str | None
) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script(script)

    error = caught.value
    assert (error.line, error.column) == place
    assert message in error.message
    assert hint is None or (error.hint is not None and hint in error.hint)
    assert error.excerpt is not None
    assert error.excerpt.endswith("^")


DEEP = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "(" * DEEP + "1" + ")" * DEEP,
        "(" * DEEP,
        "f(" * DEEP + "1" + ")" * DEEP,
        "a[" * DEEP,
        "-" * 2 * DEEP,
        "- " * DEEP + "1",
        "not " * DEEP + "a",
        "case when " * DEEP,
        "array[" * DEEP,
        "map(1 := " * DEEP,
        "struct(a := " * DEEP,
        "f(1, x => " * DEEP,
        "cast(" * DEEP,
        "1 + " * DEEP + "1",
        "a or " * DEEP + "b",
        "a" + "->b" * DEEP,
        "a" + "[1]" * DEEP,
        "cast(a as " + "array<" * DEEP,
        "cast(a as int" + " array" * DEEP + ")",
    ],
)
def test_deep_nesting_is_an_error_and_quick(text: str) -> None:
    start = time.process_time()
    with pytest.raises(SqlSyntaxError):
        parse_expression(text)
    assert time.process_time() - start < 2


def test_the_depth_that_is_allowed_can_be_walked_and_printed() -> None:
    levels = MAX_DEPTH - 1
    for text in ("f(" * levels + "1" + ")" * levels, "a + " * levels + "a", "not " * levels + "a"):
        assert text_of(parse_expression(text))
    nested = "array<" * (MAX_DEPTH - 1) + "int" + ">" * (MAX_DEPTH - 1)
    assert str(getattr(parse_type(nested), "type", "")).startswith("ARRAY<ARRAY<")
    with pytest.raises(SqlSyntaxError, match="nested more than"):
        parse_script("explain " * DEEP + "show tables;")


def test_the_number_of_columns_is_limited() -> None:
    parse_script(f"select {', '.join(['a'] * MAX_COLUMNS)} from s;")
    with pytest.raises(SqlSyntaxError, match="more than 10000 items in SELECT"):
        parse_script(f"select {', '.join(['a'] * (MAX_COLUMNS + 1))} from s;")
    with pytest.raises(SqlSyntaxError, match="characters"):
        parse_script(" " * 4_000_001)


def test_the_calls_that_a_large_statement_needs_grow_linearly() -> None:
    def calls(items: int) -> int:
        text = f"select a from s where x in ({', '.join(['12345'] * items)});"
        count = 0

        def profile(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            parse_script(text)
        finally:
            sys.setprofile(None)
        return count

    calls(10)  # fills caches
    small, large = calls(300), calls(3000)
    assert 0 < large < 10.5 * small


# ----- mutations -----------------------------------------------------------------------------------------------------

STATEMENTS = [
    "CREATE OR REPLACE STREAM s (k STRING KEY, v STRUCT<a ARRAY<INT>, b MAP<STRING, DECIMAL(4, 2)>>) WITH (x='y');",
    "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR) GROUP BY (k, a);",
    "SELECT a.*, b->*, c[1] x FROM a JOIN b WITHIN (1 DAY, 2 HOURS) GRACE PERIOD 1 SECOND ON a.x = b.y EMIT CHANGES;",
    "SELECT CASE WHEN a > 1.5e3 THEN 'x''y' ELSE `q` END FROM s;",
    "SELECT TRANSFORM(m, (k, v) => k, (k, v) => v + 1) FROM s WHERE a NOT IN (1) LIMIT 5;",
    "INSERT INTO s (a, b) VALUES (ARRAY[1, .5], MAP('a' := STRUCT(x := CAST(NULL AS INT ARRAY))));",
    "DEFINE v = 'x'; SET 'a' = '${v}'; DROP STREAM IF EXISTS ${v} DELETE TOPIC; -- c\n EXPLAIN SELECT * FROM s;",
    "ASSERT NULL VALUES s (a) KEY (1); RUN SCRIPT 'f'; ALTER STREAM s ADD COLUMN x INT; PRINT t FROM BEGINNING;",
]


def mutated(chance: random.Random) -> str:
    text = chance.choice(STATEMENTS)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randint(0, 12))
        other = chance.choice(STATEMENTS)
        cut = chance.randrange(len(other))
        insertion = chance.choice(
            ["", other[cut : cut + chance.randint(1, 20)], chance.choice("()[]<>,;:='\"`$@{}.-+*/!é\x00\n 1e_")]
        )
        text = text[:start] + insertion + text[end:]
    return text


def outcome(text: str) -> SqlError | None:
    try:
        parse_script(text, test_statements=True)
    except SqlError as error:
        return error
    return None


def test_mutated_statements_only_give_errors_of_sql() -> None:
    chance = random.Random(20)
    outcomes = [outcome(mutated(chance)) for _ in range(2500)]

    errors = [error for error in outcomes if error is not None]
    assert 1000 < len(errors) < 2490
    assert all(error.line is not None and str(error) for error in errors)
