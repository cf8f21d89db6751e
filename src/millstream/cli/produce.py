"""`millstream produce`: writes records to a topic."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from millstream.cli.exits import CommandError, UsageError
from millstream.cli.log_access import open_data
from millstream.cli.options import Data, Output
from millstream.cli.printing import print_json, print_note
from millstream.cli.registries import Registry, SchemaFile, SchemaSerdes, prepare_to_write
from millstream.cli.serdes import KeyOfRecord, ValueOfRecord, bytes_of_json, from_base64, refused, to_bytes
from millstream.cli.topics import check_partition
from millstream.cli.user_input import to_milliseconds
from millstream.errors import SerdeError
from millstream.schemas.json_values import parse_json, value_of_json
from millstream.serde import Serde

if TYPE_CHECKING:
    from millstream.log import Log, ProducerRecord

_CHUNK = 1 << 20
_BATCH_BYTES = 4 << 20
_FIELDS = ("key", "key_base64", "value", "value_base64", "timestamp", "headers", "partition")
_OF_CONSUME = ("topic", "offset", "key_schema_id", "value_schema_id")

_TOO_LARGE = 2**63

Parse = Callable[[str, int], "ProducerRecord"]
_Typed: TypeAlias = Serde[Any] | None


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    file: Annotated[str | None, typer.Option("--file", help="Read this file instead of stdin.")] = None,
    format: Annotated[
        Literal["text", "json"], typer.Option("--format", help="The format of a line: a value, or a JSON object.")
    ] = "text",
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", metavar="TEXT", help="The separator of key and value. Default: lines have no keys."
        ),
    ] = None,
    key_serde: KeyOfRecord = None,
    value_serde: ValueOfRecord = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="FILE", help="The schema of values: a file of type .avsc, .proto or .json."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="NAME", help="The message of a .proto file, if it has several.")
    ] = None,
    key_schema: Annotated[
        str | None, typer.Option("--key-schema", metavar="FILE", help="The schema of keys; as for values.")
    ] = None,
    key_message: Annotated[
        str | None, typer.Option("--key-message", metavar="NAME", help="The message of keys; as for values.")
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option("--null-marker", metavar="TEXT", help="The text that stands for a null key or value.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", metavar="TIME", help="The timestamp of all records: ISO 8601 or milliseconds."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Write to this partition.")] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="The highest number of records per second.")
    ] = None,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Writes records to a topic: one for each line of stdin, or of a file.

    With --format json a line is an object with any of: key, value, timestamp, headers, partition. Text is written
    unchanged, any other value as JSON; a serde serializes keys and values instead. key_base64 and value_base64 take
    bytes. Headers are an object, or a list of pairs of name and value; a value is text, null, or, for bytes, an object
    with base64.

    consume --output json prints this format: piped into produce, it writes the same records with the same bytes.

    With --value avro, protobuf or json_schema, a value is JSON, and --schema names its schema, which is registered as
    the next version of the subject, as a serializer does it. Without --schema, the latest version of the subject is
    used.
    """
    if rate is not None and rate <= 0:
        raise UsageError(f"--rate: {rate:g} is not above 0")
    if key_separator == "":
        raise UsageError("--key-separator: it is empty")
    moment = None if timestamp is None else to_milliseconds(timestamp, "--timestamp")
    with SchemaSerdes(topic, registry, data) as serdes, open_data(data) as log:
        check_partition(topic, log.topic(topic).partitions, partition)
        keys = serdes.named(key_serde, "--key-serde", is_key=True, schema=SchemaFile(key_schema, key_message))
        values = serdes.named(value_serde, "--value-serde", is_key=False, schema=SchemaFile(schema, message))
        parse = (
            _json_parser(moment, (keys if key_serde else None, values if value_serde else None))
            if format == "json"
            else _text_parser(moment, (keys, values), key_separator, null_marker)
        )
        descriptor = _opened(file)
        writer = _RecordWriter(log, topic, partition, output)
        try:
            prepare_to_write(keys)
            prepare_to_write(values)
            _produce(_batches(descriptor), parse, writer, rate)
        except BaseException as error:
            writer.report(ended=isinstance(error, KeyboardInterrupt))
            raise
        finally:
            os.close(descriptor)
        writer.report(ended=True)


def _text_parser(
    moment: int | None, serdes: tuple[Serde[Any], Serde[Any]], separator: str | None, null_marker: str | None
) -> Parse:
    from millstream.log import ProducerRecord

    keys, values = serdes

    def parse(line: str, number: int) -> ProducerRecord:
        where = f"line {number}"
        key, value = _split(line, separator, where)
        return ProducerRecord(
            None if key is None or key == null_marker else to_bytes(key, keys, f"{where}, key"),
            None if value == null_marker else to_bytes(value, values, f"{where}, value"),
            moment,
        )

    return parse


def _json_parser(moment: int | None, serdes: tuple[_Typed, _Typed]) -> Parse:
    return lambda line, number: _from_json(line, moment, f"line {number}", serdes)


class _RecordWriter:
    """Writes records, and counts them."""

    def __init__(self, log: Log, topic: str, partition: int | None, output: str) -> None:
        self.log = log
        self.topic = topic
        self.partition = partition
        self.count = 0
        self._output = output
        self._started = time.monotonic()

    def write(self, records: Sequence[ProducerRecord]) -> None:
        with _deferred_interrupt():  # else the commit could be counted as interrupted
            self.log.produce(self.topic, records, partition=self.partition)
            self.count += len(records)

    def report(self, *, ended: bool) -> None:
        seconds = time.monotonic() - self._started
        if self._output == "json":
            print_json({"topic": self.topic, "records": self.count, "seconds": round(seconds, 3)})
        elif ended:
            print_note(
                f"{self.count} record{'' if self.count == 1 else 's'} written to {self.topic} in {seconds:.1f} s"
            )
        elif self.count:
            print_note(f"written to {self.topic} before the error: {self.count}")


@contextlib.contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Raises the `KeyboardInterrupt` of a first Ctrl-C after the block. A second Ctrl-C interrupts the block."""
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual):
        yield
        return
    interrupt = usual
    pending = False

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending:
            interrupt(number, frame)
        pending = True

    signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if pending:
        raise KeyboardInterrupt


def _opened(file: str | None) -> int:
    try:
        return os.dup(sys.stdin.fileno()) if file is None else os.open(file, os.O_RDONLY)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from error


def _batches(descriptor: int) -> Iterator[list[bytes]]:
    """Yields the available lines, up to a few megabytes at a time, so that slow input is written without delay."""
    rest = b""
    while chunk := _read(descriptor):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        if lines:
            yield lines
    if rest:
        yield [rest]


def _read(descriptor: int) -> bytes:
    try:
        parts = [os.read(descriptor, _CHUNK)]
        size = len(parts[0])
        while parts[-1] and size < _BATCH_BYTES and select.select([descriptor], [], [], 0)[0]:
            parts.append(os.read(descriptor, _CHUNK))
            size += len(parts[-1])
    except OSError as error:
        raise CommandError(f"the input cannot be read: {error.strerror}") from error
    return b"".join(parts)


def _produce(batches: Iterator[list[bytes]], parse: Parse, writer: _RecordWriter, rate: float | None) -> None:
    number = 0
    started = time.monotonic()
    for lines in batches:
        records = []
        problem = None
        for line in lines:
            number += 1
            try:
                records.append(parse(_decoded(line, number), number))
            except UsageError as error:
                problem = CommandError(error.message, hint=error.hint)
                break
        if rate is None:
            writer.write(records)
        else:
            _paced(records, writer, rate, started)
        if problem is not None:
            raise problem


def _paced(records: list[ProducerRecord], writer: _RecordWriter, rate: float, started: float) -> None:
    step = max(1, int(rate / 10))
    for at in range(0, len(records), step):
        due = started + writer.count / rate
        time.sleep(max(0.0, due - time.monotonic()))
        writer.write(records[at : at + step])


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError:
        hint = "write bytes in base64: --format json, with value_base64"
        raise UsageError(f"line {number} is not UTF-8 text", hint=hint) from None


def _split(line: str, separator: str | None, where: str) -> tuple[str | None, str]:
    if separator is None:
        return None, line
    key, present, value = line.partition(separator)
    if not present:
        raise UsageError(f"{where}: there is no {separator!r} between key and value")
    return key, value


def _from_json(line: str, timestamp: int | None, where: str, serdes: tuple[_Typed, _Typed]) -> ProducerRecord:
    from millstream.log import ProducerRecord

    try:
        fields = parse_json(line)
    except ValueError as error:
        raise UsageError(f"{where} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UsageError(f"{where} is not a JSON object", hint='write {"key": …, "value": …}')
    # The additional fields of consume are accepted, so that its output can be written to another topic.
    unknown = [name for name in fields if name not in {*_FIELDS, *_OF_CONSUME}]
    if unknown:
        hint = f"the fields are: {', '.join(_FIELDS)}"
        raise UsageError(f"{where}: there is no field {unknown[0]!r}", hint=hint)
    for name in ("timestamp", "partition"):
        # True is an int to Python.
        if type(fields.get(name)) not in {int, type(None)} and not (name == "timestamp" and type(fields[name]) is str):
            raise UsageError(f"{where}: {name} is {json.dumps(fields[name])}, not a whole number")
        if type(fields.get(name)) is int and not -_TOO_LARGE <= fields[name] < _TOO_LARGE:
            raise UsageError(f"{where}: {name} is {fields[name]}, which has more than 64 bits")
    moment = timestamp if timestamp is not None else fields.get("timestamp")
    if isinstance(moment, str):
        moment = to_milliseconds(moment, f"{where}, timestamp")
    key, value = (_field(fields, name, where, serde) for name, serde in zip(("key", "value"), serdes, strict=True))
    return ProducerRecord(key, value, moment, _headers(fields.get("headers"), where), fields.get("partition"))


def _field(fields: dict[str, Any], name: str, where: str, serde: _Typed) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        return from_base64(encoded, f"{where}: {name}_base64")
    value = fields.get(name)
    if serde is None or value is None:
        return bytes_of_json(value, f"{where}: {name}")
    try:
        return serde.serialize(value_of_json(value, serde))
    except SerdeError as error:
        raise refused(error, serde, f"{where}, {name}") from None
    except (TypeError, ValueError):
        raise UsageError(f"{where}, {name}: {json.dumps(value)} is not a {serde.name}") from None


def _headers(headers: Any, where: str) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(headers.items()) if isinstance(headers, dict) else headers or []
    if not (isinstance(pairs, list) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs)):
        raise UsageError(f"{where}: headers are an object, or a list of [name, value]")
    return tuple((_header_name(name, where), _header_value(value, where)) for name, value in pairs)


def _header_name(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise UsageError(f"{where}: the name of a header is {json.dumps(name)}, not a text")
    bytes_of_json(name, f"{where}: the name of a header")
    return name


def _header_value(value: Any, where: str) -> bytes | None:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return from_base64(value["base64"], f"{where}: the base64 of a header")
    return bytes_of_json(value, f"{where}: a header")


EXAMPLES = (
    "echo 'to be or not to be' | millstream produce lines",
    "millstream produce orders --file orders.txt --key-separator :",
    "millstream produce orders --value avro --schema order.avsc --file orders.jsonl",
    "millstream consume orders --from-beginning -o json | millstream produce copy --format json",
)
