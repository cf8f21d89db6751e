"""Statements of ``tests/sql/statements``: those that are refused, and the columns of query results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from millstream.errors import SqlError
from millstream.sql.syntax import parse_script
from millstream.sql.syntax.tree import Statement
from millstream.sql.testing.local import LocalEngine

FOLDER = Path(__file__).parent / "statements"


def cases(name: str) -> tuple[str, list[tuple[list[str], str]]]:
    """Returns the statements before the first case, and the marks and the statements of each case."""
    first, *blocks = re.split(r"\n(?=\n-- (?:refused|columns): )", (FOLDER / name).read_text(encoding="utf-8"))
    return first, [(re.findall(r"^-- (.*)$", block, re.MULTILINE), block) for block in blocks]


REFUSED_SOURCES, REFUSED = cases("refused.sql")
RESULT_SOURCES, RESULTS = cases("results.sql")


@cache
def parsed(script: str) -> Sequence[Statement]:
    return tuple(parse_script(script))


def executed(sources: str, script: str) -> LocalEngine:
    engine = LocalEngine({})
    for statement in (*parsed(sources), *parse_script(script)):
        engine.execute(statement)
    return engine


@pytest.mark.parametrize(("marks", "script"), REFUSED, ids=[script.splitlines()[-1] for _marks, script in REFUSED])
def test_a_statement_is_refused(marks: list[str], script: str) -> None:
    with pytest.raises(SqlError) as caught:
        executed(REFUSED_SOURCES, script)

    assert marks[0].removeprefix("refused: ") in caught.value.message


@pytest.mark.parametrize(("marks", "script"), RESULTS, ids=[script.splitlines()[-1] for _marks, script in RESULTS])
def test_a_query_has_the_columns_of_its_result(marks: list[str], script: str) -> None:
    engine = executed(RESULT_SOURCES, script)

    assert engine.queries[-1].sink.schema_text() == marks[0].removeprefix("columns: ")
    assert bool(engine.internal_topics()) == ("repartitioned" in marks)
