"""`millstream consume`: reads records of a topic."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from millstream.cli.exits import UsageError
from millstream.cli.log_access import open_data
from millstream.cli.options import Data
from millstream.cli.printing import format_time, print_json
from millstream.cli.registries import Registry, SchemaSerdes
from millstream.cli.serdes import KeyOfRecord, ValueOfRecord, serdes_of
from millstream.cli.topics import check_partition
from millstream.cli.user_input import to_milliseconds
from millstream.core.names import check_name
from millstream.core.records import UnreadableHeaders
from millstream.schemas.json_values import as_field, as_headers, as_text
from millstream.serde import Serde

if TYPE_CHECKING:
    from millstream.log import Log

_READ_BYTES = 1 << 20
_WAIT_SECONDS = 1.0
_COUNTED = 1_000
_POSITION_WIDTH, _KEY_WIDTH = 11, 12

EXAMPLES = (
    "millstream consume orders --from-beginning",
    "millstream consume word-counts --from-beginning --value-serde long --follow",
    "millstream consume orders --from-beginning --value avro --registry http://localhost:8081",
    "millstream consume word-counts --app word_count.py --offset -10",
    "millstream consume orders --offset -10 --output json",
    "millstream consume orders --group checks --from-beginning --max-records 100",
)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the first record.")] = False,
    offset: Annotated[
        int | None, typer.Option("--offset", help="Start at this offset of each partition; -10: the last ten records.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", metavar="TIME", help="Start at a time: ISO 8601 or milliseconds.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Start at the committed offsets of this group, and commit new ones."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    follow: Annotated[
        bool | None,
        typer.Option("--follow/--no-follow", "-f", help="At the end of the topic, wait for new records."),
    ] = None,
    max_records: Annotated[
        int | None, typer.Option("--max-records", "-n", help="Stop after this many records.")
    ] = None,
    key_serde: KeyOfRecord = None,
    value_serde: ValueOfRecord = None,
    app: Annotated[
        str | None,
        typer.Option(
            "--app", metavar="APP", help="Use the serdes of the topic in this application: module:app or file.py."
        ),
    ] = None,
    registry: Registry = None,
    data: Data = None,
    output: Annotated[
        Literal["table", "json"],
        typer.Option("--output", "-o", help="Columns (in a pipe: key, tab, value), or JSON objects."),
    ] = "table",
) -> None:
    """Reads records of a topic and prints them.

    By default it starts at the end of the topic and waits for new records. With a start position it stops at the end,
    unless --follow is given. Ctrl-C stops it, with exit code 130.

    A group starts at its committed offsets; the other options apply to partitions without one.

    A key or value that begins with the id of a schema (Avro, Protobuf, JSON Schema) is decoded with it, unless a serde
    or --app is given. With --output json, its bytes and the id are printed, too.
    """
    positions_given = sum([from_beginning, offset is not None, timestamp is not None])
    if positions_given > 1:
        raise UsageError("only one of --from-beginning, --offset and --timestamp can be given")
    if max_records is not None and max_records < 1:
        raise UsageError(f"--max-records: {max_records} is below 1")
    if app is not None and registry is not None:
        raise UsageError(
            "--app and --registry exclude each other: the configuration of the application has the registry"
        )
    if group is not None:
        check_name(group, "consumer group")
    moment = None if timestamp is None else to_milliseconds(timestamp, "--timestamp")
    with SchemaSerdes(topic, registry, data) as serdes, open_data(data) as log:
        by_app = (None, None) if app is None else serdes_of(app, topic)
        keys, values = (
            serdes.named(name, f"--{kind}-serde", is_key=kind == "key")
            if name is not None
            else of_app or serdes.by_id(is_key=kind == "key")
            for kind, name, of_app in zip(("key", "value"), (key_serde, value_serde), by_app, strict=True)
        )
        printer = _printer(topic, keys, values, output)
        count = log.topic(topic).partitions
        check_partition(topic, count, partition)
        partitions = list(range(count)) if partition is None else [partition]
        start = _Start(from_beginning, offset, moment)
        positions = _positions(log, topic, partitions, start, group)
        committed = group is not None and any((topic, number) in log.committed(group) for number in partitions)
        waits = follow if follow is not None else not (positions_given or committed)
        _consume(_Reader(log, topic, positions, max_records), printer, group, follow=waits)


@dataclass(frozen=True, slots=True)
class _Start:
    """The start position; the end of the topic if nothing is set."""

    beginning: bool
    offset: int | None
    time: int | None


def _positions(log: Log, topic: str, partitions: list[int], start: _Start, group: str | None) -> dict[int, int]:
    starts, ends = log.starts([topic])[topic], log.ends([topic])[topic]
    committed = {} if group is None else log.committed(group)
    times = (
        {} if start.time is None else log.offsets_for_times(dict.fromkeys([(topic, p) for p in partitions], start.time))
    )
    positions = {}
    for number in partitions:
        position = ends[number]
        if (topic, number) in committed:
            position = max(committed[topic, number], starts[number])  # retention may have deleted earlier records
        elif start.beginning:
            position = starts[number]
        elif start.time is not None:
            position = times[topic, number]
        elif start.offset is not None:
            position = start.offset
            if position < 0:
                position = _last(log, (topic, number), starts[number], ends[number], -start.offset)
        positions[number] = min(position, ends[number])
    return positions


def _last(log: Log, partition: tuple[str, int], start: int, end: int, count: int) -> int:
    """Returns the offset of the n-th last record. Transactions and compaction leave offsets without a record."""
    width = count
    while count <= _COUNTED:
        begin = max(start, end - width)
        offsets = log.read(*partition, begin, end)["offset"]
        if len(offsets) >= count:
            return int(offsets[len(offsets) - count].as_py())
        if begin == start:
            return start
        width *= 4
    return max(start, end - count)


class _Reader:
    """Reads records from positions, and advances the positions."""

    def __init__(self, log: Log, topic: str, positions: dict[int, int], most: int | None) -> None:
        self.log = log
        self.topic = topic
        self.positions = positions
        self.left = None if most is None else min(most, sys.maxsize)

    def available(self) -> Iterator[list[dict[str, Any]]]:
        """Yields the available records in chunks. A position advances when the next chunk is requested."""
        ends = self.log.ends([self.topic])[self.topic]
        for partition in self.positions:
            while self.positions[partition] < ends[partition] and self.left != 0:
                position, end = self.positions[partition], ends[partition]
                table = self.log.read(self.topic, partition, position, end, max_bytes=_READ_BYTES)
                rows = table.slice(0, self.left).to_pylist()
                if not rows:  # compaction has removed the last records
                    self.positions[partition] = end
                    break
                for row in rows:
                    row["partition"] = partition
                yield rows
                self.positions[partition] = rows[-1]["offset"] + 1
                if self.left is not None:
                    self.left -= len(rows)

    def wait(self) -> None:
        """Waits for new records, up to a timeout."""
        self.log.wait({(self.topic, partition): at for partition, at in self.positions.items()}, _WAIT_SECONDS)


def _consume(reader: _Reader, printer: _Printer, group: str | None, *, follow: bool) -> None:
    def commit() -> None:
        if group is not None:
            reader.log.commit_offsets(group, {(reader.topic, p): at for p, at in reader.positions.items()})

    while True:
        for rows in reader.available():
            printer.print(rows)
            sys.stdout.flush()
            # Printed records are committed even if the command is interrupted before the next chunk.
            reader.positions[rows[-1]["partition"]] = rows[-1]["offset"] + 1
            commit()
        if not follow or reader.left == 0:
            commit()
            return
        reader.wait()


class _Printer:
    """Prints records as plain lines: key, tab, value."""

    def __init__(self, topic: str, keys: Serde[Any], values: Serde[Any]) -> None:
        self.topic = topic
        self.keys = keys
        self.values = values

    def print(self, rows: Iterable[dict[str, Any]]) -> None:
        """Prints records."""
        typer.echo("\n".join("\t".join(self.texts(row)) for row in rows))

    def texts(self, row: dict[str, Any]) -> tuple[str, str]:
        """Returns the key and the value of a record as text."""
        from millstream.log.blocks import decode_headers

        headers = decode_headers(row["headers"])
        return as_text(row["key"], self.keys, headers), as_text(row["value"], self.values, headers)


class _JsonPrinter(_Printer):
    """Prints records as JSON objects."""

    def print(self, rows: Iterable[dict[str, Any]]) -> None:
        from millstream.log.blocks import decode_headers

        for row in rows:
            record = {name: row[name] for name in ("partition", "offset", "timestamp")}
            headers = decode_headers(row["headers"])
            record = {"topic": self.topic, **record, **as_field("key", row["key"], self.keys, headers)}
            record |= as_field("value", row["value"], self.values, headers)
            if isinstance(headers, UnreadableHeaders):
                record["headers_error"] = headers.reason
            elif headers:
                record["headers"] = as_headers(headers)
            print_json(record)


class _TerminalPrinter(_Printer):
    """Prints records in columns as wide as the terminal."""

    _headed = False

    def print(self, rows: Iterable[dict[str, Any]]) -> None:
        width = shutil.get_terminal_size().columns
        if not self._headed:
            self._headed = True
            head = f"{'part:offset':>{_POSITION_WIDTH}}  {'timestamp (UTC)':<24}  {'key':<{_KEY_WIDTH}}  value"
            typer.secho(head, bold=True)
        for row in rows:
            position = f"{row['partition']}:{row['offset']}"
            key, value = self.texts(row)
            line = f"{position:>{_POSITION_WIDTH}}  {format_time(row['timestamp']):<24}  "
            typer.echo(typer.style(line, dim=True) + f"{key:<{_KEY_WIDTH}}  ", nl=False)
            # A value that does not fit is printed completely, on a line of its own.
            used = len(line) + max(len(key), _KEY_WIDTH) + 2
            typer.echo(value if used + len(value) <= width or used + 20 > width else f"\n    {value}")


def _printer(topic: str, keys: Serde[Any], values: Serde[Any], output: str) -> _Printer:
    if output == "json":
        return _JsonPrinter(topic, keys, values)
    return (_TerminalPrinter if sys.stdout.isatty() else _Printer)(topic, keys, values)
