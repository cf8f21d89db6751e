"""Queries: clauses, joins, windows."""

from __future__ import annotations

import pytest

from millstream.errors import SqlError
from millstream.sql.syntax import parse_statement, text_of
from millstream.sql.syntax.tree import Query, Select, Star, StructStar


def query(text: str) -> Query:
    statement = parse_statement(text + ";")
    assert isinstance(statement, Select)
    return statement.query


def test_all_clauses_in_their_order() -> None:
    parsed = query(
        "select a, b as x from s window w hopping (size 1 minute, advance by 10 seconds, retention 2 days,"
        " grace period 0 milliseconds) where a > 1 group by a, b partition by c having count(*) > 2 emit final limit 3"
    )

    assert [(text_of(item.expression), item.alias) for item in parsed.select] == [("A", None), ("B", "X")]
    window = parsed.window
    assert window is not None
    assert (window.kind, window.size, window.advance) == ("HOPPING", 60_000, 10_000)
    assert (window.retention, window.grace) == (172_800_000, 0)
    assert parsed.where is not None
    assert parsed.having is not None
    assert list(map(text_of, (*parsed.group_by, *parsed.partition_by))) == ["A", "B", "C"]
    assert (text_of(parsed.where), text_of(parsed.having)) == ("(A > 1)", "(COUNT(*) > 2)")
    assert (parsed.emit, parsed.limit) == ("FINAL", 3)


def test_stars() -> None:
    star, source_star, struct_star = (item.expression for item in query("select *, `s`.*, (a[1])->* from s").select)

    assert isinstance(star, Star)
    assert isinstance(source_star, Star)
    assert source_star.source == "s"
    assert isinstance(struct_star, StructStar)
    assert text_of(struct_star.base) == "A[1]"


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("select a from s", "S"),
        ("select a from s x", "X"),
        ("select a from s as `x` limit 1", "x"),
        ("select a from s emit changes", "S"),
        ("select a from s emit emit changes", "EMIT"),
        ("select a from s partition by a", "S"),
        ("select a from s partition partition by a", "PARTITION"),
        ("select a from s as emit", "EMIT"),
    ],
)
def test_aliases_and_clauses_that_start_with_words_that_are_not_reserved(text: str, alias: str) -> None:
    assert query(text).relation.alias == alias


def test_joins() -> None:
    joins = query(
        "select * from a join b within 1 day on a.x = b.x inner join c on true left outer join d on true right join e"
        " within (0 seconds, 1 hour) grace period 5 minutes on true full join f as g on true"
    ).joins

    assert [join.kind for join in joins] == ["INNER", "INNER", "LEFT", "RIGHT", "FULL"]
    assert [join.relation.alias for join in joins] == ["B", "C", "D", "E", "G"]
    within = [(j.within.before, j.within.after, j.within.grace) for j in joins if j.within is not None]
    assert within == [(86_400_000, 86_400_000, None), (0, 3_600_000, 300_000)]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("a, b", ["A", "B"]),
        ("(a, b)", ["A", "B"]),
        ("(a)", ["A"]),
        ("(a is null)", ["(A IS NULL)"]),
        ("(a + b) * 2, c", ["((A + B) * 2)", "C"]),
        ("(a)->b", ["A->B"]),
        ("(a, b) emit changes", ["A", "B"]),
    ],
)
def test_grouping(clause: str, expected: list[str]) -> None:
    assert list(map(text_of, query(f"select a from s group by {clause}").group_by)) == expected
    assert list(map(text_of, query(f"select a from s partition by {clause}").partition_by)) == expected


@pytest.mark.parametrize(
    "clauses",
    [
        "where a = 1 window tumbling (size 1 second)",
        "having a group by b",
        "group by a where b",
        "limit 1 emit changes",
        "partition by a group by b",
        "order by a",
        "union select a from b",
        "limit 1 offset 2",
        "limit 1.5",
        "limit",
        "where a emit",
        "emit everything",
        "group by",
        "group by ()",
        "group by (a), (b)",
        "group by (a, b), c",
        "group by a = b",
        "group by a,",
        "window tumbling (size 1)",
        "window tumbling (size 1.5 seconds)",
        "window tumbling (size -1 seconds)",
        "window tumbling (size 99999999999999 days)",
        "window tumbling (1 second)",
        "window tumbling (size 1 week)",
        "window tumbling (size 1 second, grace period 1 second, retention 1 second)",
        "window tumbling (size 1 second, advance by 1 second)",
        "window hopping (size 1 second)",
        "window hopping (advance by 1 second, size 1 second)",
        "window session (size 1 second)",
        "window sliding (size 1 second)",
        "window tumbling ()",
        "join b",
        "join b on",
        "cross join b",
        "left inner join b on true",
        "join b on true within 1 second",
        "join b within (1 second) on true",
        "join b using (x)",
        "natural join b",
        "(select a from b)",
        ", b",
        "with",
    ],
)
def test_refused_clauses(clauses: str) -> None:
    query("select a from s")
    with pytest.raises(SqlError):
        query(f"select a from s {clauses}")


@pytest.mark.parametrize(
    "text",
    [
        "select from s",
        "select a",
        "select a, from s",
        "select distinct a from s",
        "select all a from s",
        "select * as x from s",
        "select s.* x from s",
        "select a + b->* from s",
        "select a->* as x from s",
        "select a as stream from s",
        "select a from",
        "select a from explode(b)",
        "select a from (s)",
        "select a from stream",
        "select a from `a b`",
        "select a from s as `a.b`",
        "select a from s; select b",
        "with x as (select a from s) select a from x",
    ],
)
def test_refused_queries(text: str) -> None:
    with pytest.raises(SqlError):
        query(text)
