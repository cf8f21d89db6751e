"""Expressions: precedence, units, literals, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from millstream.errors import SqlSyntaxError
from millstream.sql.syntax import key, parse_expression, same, text_of, walk
from millstream.sql.syntax.tree import Call, ColumnRef, IntervalUnit, Lambda, Literal, Position, Star


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "(A + (B * C))"),
        ("a - b - c", "((A - B) - C)"),
        ("a % b / c", "((A % B) / C)"),
        ("a || b + c", "(A || (B + C))"),
        ("a || b = c || d", "((A || B) = (C || D))"),
        ("not a = b and c or d", "(((NOT (A = B)) AND C) OR D)"),
        ("not not a", "(NOT (NOT A))"),
        ("a or b and c", "(A OR (B AND C))"),
        ("a or b or c", "((A OR B) OR C)"),
        ("a != b", "(A <> B)"),
        ("a is null and b is not null", "((A IS NULL) AND (B IS NOT NULL))"),
        ("a is distinct from b", "(A IS DISTINCT FROM B)"),
        ("a is not distinct from b + 1", "(A IS NOT DISTINCT FROM (B + 1))"),
        ("a between 1 and 2 and b", "((A BETWEEN 1 AND 2) AND B)"),
        ("a not between b + 1 and c", "(A NOT BETWEEN (B + 1) AND C)"),
        ("a in (1, 2)", "(A IN (1, 2))"),
        ("a not in (b = c)", "(A NOT IN ((B = C)))"),
        ("a like 'x%'", "(A LIKE 'x%')"),
        ("a not like b || '%' escape '!'", "(A NOT LIKE (B || '%') ESCAPE '!')"),
        ("(a = b) = (c = d)", "((A = B) = (C = D))"),
        ("-a->b[1]", "-A->B[1]"),
        ("-a * b", "(-A * B)"),
        ("- -1", "-(-1)"),
        ("+1", "+(1)"),
        ("a -1", "(A - 1)"),
        ("a - -1", "(A - -1)"),
        ("-(1)", "-(1)"),
        ("s->f->g", "S->F->G"),
        ("s.c->f", "S.C->F"),
        ("a[b + 1]['k']", "A[(B + 1)]['k']"),
        ("f(x)->y", "F(X)->Y"),
        ("count(*)", "COUNT(*)"),
        ("Ucase(`x`)", "UCASE(`x`)"),
        ("f()", "F()"),
        ("replace(a, 'x', '')", "REPLACE(A, 'x', '')"),
        ("case when a then b end", "(CASE WHEN A THEN B END)"),
        ("case a when 1 then b when 2 then c else d end", "(CASE A WHEN 1 THEN B WHEN 2 THEN C ELSE D END)"),
        ("cast(a as bigint array)", "CAST(A AS ARRAY<BIGINT>)"),
        ("cast(null as address)", "CAST(NULL AS ADDRESS)"),
        ("array[1, a]", "ARRAY[1, A]"),
        ("array[]", "ARRAY[]"),
        ("map('a' := 1, b := a = 2)", "MAP('a':=1, B:=(A = 2))"),
        ("map()", "MAP()"),
        ("struct(a := 1, `b` := struct())", "STRUCT(A:=1, `b`:=STRUCT())"),
        ("array", "ARRAY"),
        ("map[1]", "MAP[1]"),
        ("transform(a, x => x + 1)", "TRANSFORM(A, X => (X + 1))"),
        ("reduce(a, 0, (s, x) => s + x)", "REDUCE(A, 0, (S, X) => (S + X))"),
        ("transform(m, (k, v) => k, (k, v) => v)", "TRANSFORM(M, (K, V) => K, (K, V) => V)"),
        ("f(a, (b))", "F(A, B)"),
        ("dateadd(day, 1, d)", "DATEADD(DAYS, 1, D)"),
        ("timestampsub(MILLISECONDS, day, d)", "TIMESTAMPSUB(MILLISECONDS, DAY, D)"),
        ("abs(day)", "ABS(DAY)"),
        ("2x + 3", "(2X + 3)"),
        ('"a b" + `c``d`', "(`a b` + `c``d`)"),
        ("key + date + type + id + source + if", "(((((KEY + DATE) + TYPE) + ID) + SOURCE) + IF)"),
    ],
)
def test_structure(text: str, expected: str) -> None:
    expression = parse_expression(text)

    assert text_of(expression) == expected
    assert same(parse_expression(expected), expression)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-9223372036854775808", -(2**63)),
        ("007", 7),
        ("- 1", -1),
        ("1.50", Decimal("1.50")),
        (".5", Decimal(".5")),
        ("5.", Decimal(5)),
        ("-1.0", Decimal("-1.0")),
        ("1e3", 1000.0),
        ("1.E-2", 0.01),
        (".5e1", 5.0),
        ("'it''s'", "it's"),
        (r"'\n'", r"\n"),
        ("''", ""),
        ("true", True),
        ("False", False),
        ("null", None),
        ("DECIMAL '1.20'", Decimal("1.20")),
        (f"-{'1' * 40}.{'2' * 20}", Decimal(f"-{'1' * 40}.{'2' * 20}")),
    ],
)
def test_literals(text: str, value: object) -> None:
    literal = parse_expression(text)

    assert isinstance(literal, Literal)
    assert (type(literal.value), str(literal.value)) == (type(value), str(value))
    assert same(parse_expression(text_of(literal)), literal)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = b = c",
        "a == b",
        "a is null is null",
        "a in (1) = true",
        "a = not b",
        "a + not b",
        "a is true",
        "a in ()",
        "a in 1",
        "a between 1",
        "a not 1",
        "f(,)",
        "f(a,)",
        "f(x => x)",
        "f(a, x => x, b)",
        "f(a, (1) => 1)",
        "case end",
        "case when a then b",
        "case else 1 end",
        "cast(a bigint)",
        "cast(a as null)",
        "array[1,]",
        "map(1)",
        "struct(1 := 2)",
        "a.b.c",
        "a->",
        "a->*",
        "a[]",
        "a[b = c]",
        "(a",
        "a)",
        "a b",
        "stream",
        "left(a, 1)",
        "select",
        "9223372036854775808",
        "-9223372036854775809",
        "1" * 100_000,
        "1e999",
        "DATE '2020-01-01'",
        "DECIMAL 'x'",
        "DECIMAL 'NaN'",
        "x'ff'",
        "a like b escape 'xy'",
        "a at time zone 'UTC'",
        "(select 1)",
        "'open",
        "`open",
        "``",
        "/* open",
        "a ! b",
        "a # b",
        "é",
        "$x",
        "days",
        "f(days + 1)",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_expression(text)


def test_positions_count_lines_and_columns_from_one() -> None:
    expression = parse_expression("a +\n  'x\ny' || /* c\n */ b")

    assert [node.at for node in walk(expression)] == [(1, 1), (1, 1), (1, 1), (2, 3), (4, 5)]
    assert isinstance(expression.at, Position)


def test_comments_separate_tokens() -> None:
    assert text_of(parse_expression("a--b\n+/**/c -- the end")) == "(A + C)"


def test_units_lambdas_and_stars_have_their_own_nodes() -> None:
    call = parse_expression("dateadd(DAY, 1, transform(a, (x, y) => count(*)))")

    kinds = [type(node) for node in walk(call)]
    assert kinds == [Call, IntervalUnit, Literal, Call, ColumnRef, Lambda, Call, Star]


def test_keys_ignore_positions_and_tell_literals_apart() -> None:
    first, second = parse_expression("f(a, b->c)"), parse_expression(" f( A,\nB -> C)")
    assert key(first) == key(second)
    assert hash(key(first)) == hash(key(second))

    texts = ["1", "1.0", "1.00", "1e0", "'1'", "true", "'true'", "null", "'None'", "a", "`a`", "s.a", "-a", "-1"]
    assert len({key(parse_expression(text)) for text in texts}) == len(texts)
