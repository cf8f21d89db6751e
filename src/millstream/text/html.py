"""HTML tables that represent objects in notebooks. All text in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any

ROWS = 20
"""The number of rows of a store in its table."""

_LONGEST = 200
_CELL = "text-align:left;white-space:pre-wrap"


def show(value: object) -> str:
    """Returns the `repr` of a value, shortened."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  (a failing __repr__ of a user's class must not hide the other rows)
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Returns a table with a title above and a note below it."""
    lines = (f"<tr>{_cells('td', row)}</tr>" for row in rows)
    caption = f"<div><b>{escape(title)}</b></div>"
    below = f"<div><small>{escape(note)}</small></div>" if note else ""
    head = f"<thead><tr>{_cells('th', header)}</tr></thead>"
    return f"<div>{caption}<table>{head}<tbody>{''.join(lines)}</tbody></table>{below}</div>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f'<{tag} style="{_CELL}">{escape(text)}</{tag}>' for text in texts)


def facts(title: str, named: Iterable[tuple[str, object]]) -> str:
    """Returns a table of names and values, without those that are None."""
    rows = [(name, str(value)) for name, value in named if value is not None]
    return table(title, ("", ""), rows)


def first_rows(title: str, header: Sequence[str], rows: Iterable[tuple[Any, ...]], count: int) -> str:
    """Returns a table of the first rows; ``count`` is the approximate total."""
    shown = [[show(cell) for cell in row] for row in islice(rows, ROWS)]
    note = f"the first {len(shown)} of about {max(count, len(shown)):,} rows" if len(shown) == ROWS else ""
    return table(title, header, shown, note or f"{len(shown)} rows")


def operator(shown: object, node: Any, key: Any, value: Any) -> str:
    """Returns a table that describes a stream or a table: its operator, the line of user code, its serdes and store."""
    serdes = [(part, getattr(serde, "name", None)) for part, serde in (("key", key), ("value", value))]
    store = getattr(getattr(node, "store", None), "name", None)
    return facts(repr(shown), [("operator", node.kind), ("made at", node.at), *serdes, ("store", store)])
