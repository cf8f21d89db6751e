"""Results fit the terminal."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from tests.sql.requests.support import new_handler

from millstream.sql.shell.rendering import Renderer


def shown(query: str, width: int, *scripts: str, rows: tuple[tuple[str, str, int, int], ...] = ()) -> list[str]:
    """The lines that a terminal of a width shows of the answer to a query."""
    answer = new_handler(*scripts, rows=rows or (("ann", "Rome", 5, 1_000),)).query(query)
    out = io.StringIO()
    write = Renderer("table", out, io.StringIO(), width).live(answer)
    while not answer.finished:
        write(answer.poll())
    answer.close()
    return out.getvalue().splitlines()


def test_columns_share_the_width_of_the_terminal() -> None:
    assert shown("SELECT * FROM orders;", 31) == [
        "BUYER    │ CITY     │ AMOUNT",
        "─────────┼──────────┼─────────",
        "ann      │ Rome     │ 5",
    ]


@pytest.mark.parametrize("width", [24, 31, 40, 80, 100, 250])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut_off(width: int) -> None:
    long_name = "x" * 70
    lines = shown(
        f"SELECT buyer, city, amount AS {long_name} FROM orders;", width, rows=(("a" * 90, "日本" * 20, 7, 1),)
    )

    assert max(map(cell_len, lines)) <= width
    text = "".join(lines)
    assert text.count("a") == 90
    assert text.count("日本"[0]) == 20
    assert text.count("X") == 70


def test_columns_stay_below_each_other_when_characters_are_wide() -> None:
    lines = shown("SELECT * FROM orders;", 40, rows=(("日本", "Rome", 5, 1),))

    assert {cell_len(line[: line.index("│")]) for line in lines if "│" in line} == {12}


def test_a_row_with_more_columns_than_fit_is_a_list_of_its_columns() -> None:
    names = [f"C{number}" for number in range(20)]
    query = f"SELECT {', '.join(f'amount + {number} AS {name}' for number, name in enumerate(names))} FROM orders;"

    lines = shown(query, 60)

    assert len(lines) == 1 + 20
    assert lines[1].split() == ["C0", "│", "5"]
    assert lines[-1].split() == ["C19", "│", "24"]


def test_descriptions_fit_the_terminal() -> None:
    handler = new_handler(
        f"CREATE STREAM wide AS SELECT buyer, {', '.join(f'amount AS c{n}' for n in range(30))} FROM orders;"
    )
    out = io.StringIO()
    renderer = Renderer("table", out, io.StringIO(), 50)
    for entity in handler.statements("SHOW STREAMS; DESCRIBE wide;"):
        renderer.entity(entity)

    lines = out.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 50
    assert any(line.startswith("C29") for line in lines)
