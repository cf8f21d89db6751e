"""The serdes of the stores of SQL queries, from their names, which contain the columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millstream.errors import MillstreamError
from millstream.schemas.registries import ApplicationRegistry
from millstream.serde import Serde, SerdeContext

_NAME = re.compile(r"sql-(?:(\w+)-)?(key|value|row|state)<(.*)>", re.DOTALL)
_OPTION = re.compile(r"(.*?); (\w+)=([^;`]*)", re.DOTALL)


def sql_serde(name: str, context: SerdeContext, registry: Callable[[], ApplicationRegistry]) -> Serde[Any] | None:
    """Returns the serde of a name; None if the name is not one of SQL.

    >>> serde = sql_serde("sql-key<`REGION` STRING, `CITY` STRING>", SerdeContext(None, True), NotImplemented)
    >>> serde.deserialize(serde.serialize(("north", "Kiel")))
    ('north', 'Kiel')
    """
    # SQL is imported when an application uses it: the import takes a second.
    from millstream.sql.binder.expressions import resolve_type  # noqa: PLC0415
    from millstream.sql.catalog.sources import Column, FormatInfo  # noqa: PLC0415
    from millstream.sql.formats.codecs import FormatSerde  # noqa: PLC0415
    from millstream.sql.formats.internal import RowSerde, StateSerde  # noqa: PLC0415
    from millstream.sql.syntax.parser import parse_columns  # noqa: PLC0415

    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind, side, text = match.groups()
    options: dict[str, str] = {}
    while (option := _OPTION.fullmatch(text)) is not None:
        text, options[option[2]] = option[1], option[3]
    try:
        columns = [Column(each.name, resolve_type(each.type, {})) for each in parse_columns(text)]
        if kind is None:
            return StateSerde(columns) if side == "state" else RowSerde(columns, is_key=side == "key")
        wrap = {"True": True, "False": False}.get(options.pop("wrap", ""))
        schema = options.pop("schema", None)
        spec = FormatInfo(kind.upper(), tuple(sorted(options.items())), wrap, None if schema is None else int(schema))
        serde = FormatSerde(spec, columns, is_key=side == "key")
        return serde.bind(context._replace(registry=registry())) if serde.codec.format.infers else serde
    except (MillstreamError, ValueError):
        return None
