"""Results as tables that fit the terminal, as JSON lines, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millstream.errors import MillstreamError, SqlError
from millstream.sql.requests.answers import Answer
from millstream.sql.requests.deployment import ResultRow
from millstream.sql.requests.entities import Entity
from millstream.sql.requests.json_values import json_text, json_value
from millstream.sql.shell.layout import live_layout
from millstream.text.escaping import printable

Output = Literal["table", "json", "csv"]


class Renderer:
    """Writes results.

    Args:
        output: Their form.
        stream: Where results go.
        errors: Where errors and notes go.
        width: The width of the terminal; None: that of the stream.
    """

    def __init__(self, output: Output, stream: TextIO, errors: TextIO, width: int | None = None) -> None:
        self.output = output
        self._stream = stream
        self._errors = errors
        self._console = Console(file=stream, width=width, highlight=False, soft_wrap=False)
        self._notes = Console(file=errors, width=width, highlight=False, soft_wrap=True, stderr=False)

    # ----- messages --------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Writes a message that is no result."""
        self._notes.print(Text(printable_lines(text), style="dim"))

    def error(self, error: MillstreamError) -> None:
        """Writes an error: its place, the line with a mark, and the remedy."""
        self._notes.print(Text("error: ", style="bold red") + Text(printable_lines(error_text(error))))

    # ----- entities --------------------------------------------------------------------------------------------------

    def entity(self, entity: Entity) -> None:
        """Writes what a statement has returned."""
        if self.output == "json":
            self._line(json_text(entity))
            return
        kind = entity["@type"]
        if kind == "currentStatus":
            self._message(entity["commandStatus"]["message"])
        elif kind == "warning_entity":
            self._message(entity["message"])
        else:
            for title, columns, rows in sections(entity):
                self.rows(columns, rows, title=title)

    def _message(self, text: str) -> None:
        if self.output == "csv":
            self.note(text)
        else:
            self._console.print(Text(printable_lines(text)))

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
        """Writes rows that are there already."""
        listed = [["" if value is None else str(value) for value in row] for row in rows]
        if self.output == "csv":
            self._csv([columns, *listed])
            return
        if columns == ("text",):
            self.text("\n".join(row[0] for row in listed), title=title)
            return
        if title:
            self._console.print(Text(printable_lines(title), style="bold"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for column in columns:
            table.add_column(Text(column))
        for row in listed:
            table.add_row(*(Text(printable_lines(cell)) for cell in row))
        self._console.print(table)

    def text(self, text: str, *, title: str = "") -> None:
        """Writes lines of text."""
        if title:
            self._console.print(Text(title, style="bold"))
        self._console.print(Text(printable_lines(text)), soft_wrap=True)

    # ----- answers ---------------------------------------------------------------------------------------------------

    def live(self, answer: Answer) -> Callable[[Sequence[ResultRow]], None]:
        """Returns a function that writes rows of a query as they come."""
        names = [column.name for column in answer.columns]

        def values(row: ResultRow) -> list[Any]:
            return [
                None if value is None else json_value(value, column.type)
                for value, column in zip(row.values, answer.columns, strict=True)
            ]

        if self.output == "json":

            def write_json(rows: Sequence[ResultRow]) -> None:
                for row in rows:
                    shown = dict(zip(names, values(row), strict=True))
                    self._line(json_text({**shown, "@tombstone": True} if row.tombstone else shown))

            return write_json
        if self.output == "csv":
            self._csv([names])

            def write_csv(rows: Sequence[ResultRow]) -> None:
                self._csv([[cell_text(value) for value in values(row)] for row in rows])

            return write_csv
        layout = live_layout([printable(name) for name in names], self._console.width)
        self._lines(layout.header, "bold")

        def write_table(rows: Sequence[ResultRow]) -> None:
            for row in rows:
                cells = [cell_text(value, "<null>" if row.tombstone else "null") for value in values(row)]
                self._lines(layout.row(cells), "dim" if row.tombstone else "")

        return write_table

    def _lines(self, lines: Iterable[str], style: str) -> None:
        for line in lines:
            self._console.print(Text(line, style=style), no_wrap=True, overflow="crop")

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def _csv(self, rows: Iterable[Sequence[Any]]) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._stream.write(buffer.getvalue())
        self._stream.flush()


def cell_text(value: Any, null: str = "") -> str:
    """Returns a value as a cell: text as it is, everything else as JSON.

    >>> cell_text({"A": [1, None]}), cell_text("ann"), cell_text(None)
    ('{"A":[1,null]}', 'ann', '')
    """
    if value is None:
        return null
    return printable(value) if isinstance(value, str) else printable(json_text(value))


def printable_lines(text: str) -> str:
    """Returns text with control characters escaped, except ends of lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def error_text(error: MillstreamError) -> str:
    """Returns an error with its place and its remedy."""
    if isinstance(error, SqlError):
        return str(error)
    return error.message + (f"\n  hint: {error.hint}" if error.hint else "")


Section = tuple[str, tuple[str, ...], list[tuple[Any, ...]]]


def sections(entity: Entity) -> list[Section]:
    """Returns the tables that show an entity."""
    rows: list[tuple[Any, ...]]
    match entity["@type"]:
        case "streams" | "tables" as kind:
            columns = ("Name", "Topic", "Key format", "Value format", "Windowed")
            return [("", columns, [_source(item) for item in entity[kind]])]
        case "queries":
            rows = [(item["id"], item["state"], item["sinks"][0], item["queryString"]) for item in entity["queries"]]
            return [("", ("Query", "State", "Writes", "Statement"), rows)]
        case "kafka_topics" | "kafka_topics_extended":
            rows = [(item["name"], len(item["replicaInfo"])) for item in entity["topics"]]
            return [("", ("Topic", "Partitions"), rows)]
        case "properties":
            rows = [(item["name"], item["scope"], item["value"]) for item in entity["properties"]]
            return [("", ("Property", "Scope", "Value"), rows)]
    return _description_sections(entity)


def _description_sections(entity: Entity) -> list[Section]:
    match entity["@type"]:
        case "sourceDescription":
            return _source_sections(entity["sourceDescription"])
        case "source_descriptions":
            return [part for item in entity["sourceDescriptions"] for part in _source_sections(item)]
        case "queryDescription":
            return _query_sections(entity["queryDescription"])
        case "query_descriptions":
            return [part for item in entity["queryDescriptions"] for part in _query_sections(item)]
    return _other_sections(entity)


def _other_sections(entity: Entity) -> list[Section]:
    rows: list[tuple[Any, ...]]
    match entity["@type"]:
        case "function_names":
            rows = [(item["name"], item["type"].lower(), item["category"].lower()) for item in entity["functions"]]
            return [("", ("Function", "Kind", "Category"), rows)]
        case "describe_function":
            rows = [
                (", ".join(each["type"] for each in item["arguments"]), item["returnType"])
                for item in entity["functions"]
            ]
            return [(f"{entity['name']}: {entity['description']}", ("Arguments", "Result"), rows)]
        case "type_list":
            return [("", ("Type", "Of"), [(name, type_text(item)) for name, item in entity["types"].items()])]
        case "variables":
            return [("", ("Variable", "Value"), [(item["name"], item["value"]) for item in entity["variables"]])]
    plain = [(name, json_text(value)) for name, value in entity.items() if name not in _HIDDEN]
    return [("", ("Name", "Value"), plain)]


_HIDDEN = ("@type", "statementText", "warnings")


def _source(item: Entity) -> tuple[Any, ...]:
    windowed = "yes" if item["isWindowed"] else "no"
    return (item["name"], item["topic"], item["keyFormat"], item["valueFormat"], windowed)


def _source_sections(item: Entity) -> list[Section]:
    fields = [
        (field["name"], type_text(field["schema"]), (field.get("type") or "").lower()) for field in item["fields"]
    ]
    title = f"{item['name']}: {item['type'].lower()} of topic {item['topic']}"
    parts: list[Section] = [(title, ("Column", "Type", ""), fields)]
    queries = [
        (query["id"], query["state"], verb, query["queryString"])
        for verb, part in (("reads it", "readQueries"), ("writes it", "writeQueries"))
        for query in item[part]
    ]
    if queries:
        parts.append(("", ("Query", "State", "", "Statement"), queries))
    if item["extended"]:
        facts = [(label, str(item[name])) for label, name in _FACTS if item.get(name)]
        parts.append(("", ("Property", "Value"), facts))
        if item.get("statement"):
            parts.append(("Statement", ("text",), [(item["statement"],)]))
    return parts


_FACTS = (
    ("Key format", "keyFormat"),
    ("Value format", "valueFormat"),
    ("Window", "windowType"),
    ("Timestamp column", "timestamp"),
    ("Partitions", "partitions"),
    ("Replicas", "replication"),
)


def _query_sections(item: Entity) -> list[Section]:
    fields = [(field["name"], type_text(field["schema"])) for field in item.get("fields", [])]
    title = f"{item['id']}: {item['state']}" if item["id"] else "Columns"
    parts: list[Section] = [(title, ("Column", "Type"), fields)]
    before, after = item.get("executionPlan", ""), item.get("topology", "")
    texts = [("Statement", item.get("statementText")), ("Topology", after)]
    if before != after:
        texts.append(("Topology before optimisation" if after else "Plan", before))
    parts += [(title, ("text",), [(text.rstrip(),)]) for title, text in texts if text]
    return parts


def type_text(schema: Entity) -> str:
    """Returns the text of a type of an entity.

    >>> type_text({"type": "ARRAY", "memberSchema": {"type": "BIGINT"}})
    'ARRAY<BIGINT>'
    """
    match schema["type"]:
        case "ARRAY":
            return f"ARRAY<{type_text(schema['memberSchema'])}>"
        case "MAP":
            return f"MAP<STRING, {type_text(schema['memberSchema'])}>"
        case "STRUCT":
            parts = ", ".join(f"{field['name']} {type_text(field['schema'])}" for field in schema["fields"] or [])
            return f"STRUCT<{parts}>"
        case "DECIMAL" if "parameters" in schema:
            size = schema["parameters"]
            return f"DECIMAL({size['precision']}, {size['scale']})"
    return str(schema["type"])
