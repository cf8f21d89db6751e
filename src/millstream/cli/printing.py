"""Prints results as tables or JSON lines, and notes and errors on stderr. All text is escaped for terminals."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import typer

from millstream.errors import MillstreamError
from millstream.text.escaping import json_text, printable, readable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], output: Literal["table", "json"]) -> None:
    """Prints rows as a table, or as JSON objects whose keys are the column names in snake case."""
    if output == "json":
        names = [column.lower().replace(" ", "_") for column in columns]
        for row in rows:
            print_json(dict(zip(names, row, strict=True)))
        return
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [_are_numbers([row[number] for row in cells]) for number in range(len(columns))]
    if sys.stdout.isatty():
        _show_rich(columns, cells, numeric)
    else:
        _show_plain(columns, cells, numeric)


def print_text(text: str) -> None:
    """Prints a result of one or more lines, with control characters escaped."""
    typer.echo("\n".join(printable(line) for line in text.split("\n")))


def print_note(text: str) -> None:
    """Prints a message that is not part of the result: on stderr."""
    typer.echo(readable(text), err=True)


def print_error(error: MillstreamError) -> None:
    """Prints the message and the hint of an error: on stderr, in a line or two."""
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {error.message}", err=True)
    if error.hint:
        typer.echo(f"{typer.style('hint:', fg='yellow')} {error.hint}", err=True)


def print_json(data: Any) -> None:
    """Prints one line of JSON."""
    typer.echo(json_text(data))


def _show_rich(columns: Sequence[str], cells: list[list[str]], numeric: list[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column, number in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def _show_plain(columns: Sequence[str], cells: list[list[str]], numeric: list[bool]) -> None:
    lines = [[column.upper().replace(" ", "-") for column in columns], *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        parts = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numeric, strict=True)
        )
        typer.echo("  ".join(parts).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{printable(str(key))}={_cell(item)}" for key, item in value.items()) or "-"
    return printable(str(value))


def _are_numbers(cells: list[str]) -> bool:
    values = [cell for cell in cells if cell != "-"]
    return bool(values) and all(cell.replace(",", "").replace(".", "").removeprefix("-").isdecimal() for cell in values)


def format_time(milliseconds: int) -> str:
    """Returns a time in UTC as ISO 8601.

    >>> format_time(1_767_225_601_000), format_time(1_767_225_601_050)
    ('2026-01-01T00:00:01Z', '2026-01-01T00:00:01.050Z')
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")
