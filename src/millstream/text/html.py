"""How objects look in a notebook: small HTML tables. All text in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any

ROWS = 20
"""How many rows of a store are shown."""

_LONGEST = 200
_CELL = "text-align:left;white-space:pre-wrap"


def show(value: object) -> str:
    """A value in a few characters; control characters are escaped, as `repr` does it."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  (a class of the user's must not keep a notebook from showing the rest)
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table with a title above and a note below it."""
    lines = (f"<tr>{_cells('td', row)}</tr>" for row in rows)
    caption = f"<div><b>{escape(title)}</b></div>"
    below = f"<div><small>{escape(note)}</small></div>" if note else ""
    head = f"<thead><tr>{_cells('th', header)}</tr></thead>"
    return f"<div>{caption}<table>{head}<tbody>{''.join(lines)}</tbody></table>{below}</div>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f'<{tag} style="{_CELL}">{escape(text)}</{tag}>' for text in texts)


def facts(title: str, named: Iterable[tuple[str, object]]) -> str:
    """A table of facts, those that are None left out."""
    rows = [(name, str(value)) for name, value in named if value is not None]
    return table(title, ("", ""), rows)


def first_rows(title: str, header: Sequence[str], rows: Iterable[tuple[Any, ...]], count: int) -> str:
    """The first rows of many; ``count``: about how many there are."""
    shown = [[show(cell) for cell in row] for row in islice(rows, ROWS)]
    note = f"the first {len(shown)} of about {max(count, len(shown)):,} rows" if len(shown) == ROWS else ""
    return table(title, header, shown, note or f"{len(shown)} rows")


def operator(shown: object, node: Any, key: Any, value: Any) -> str:
    """A stream or a table: the operator that makes it, the user's line, its serdes and its store."""
    serdes = [(part, getattr(serde, "name", None)) for part, serde in (("key", key), ("value", value))]
    store = getattr(getattr(node, "store", None), "name", None)
    return facts(repr(shown), [("operator", node.kind), ("made at", node.at), *serdes, ("store", store)])
