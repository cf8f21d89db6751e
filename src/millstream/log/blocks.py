"""Blocks: many records encoded as one byte string, column by column.

A block starts with 16 bytes, all numbers little-endian:

    0    format version, now 1
    1    flags: 1 the message is compressed (LZ4), 2 some key is null
    2    zero
    4    CRC-32 of all other bytes
    8    size of the message when it is not compressed
    12   size of the largest record: key, value and headers together

An Arrow IPC record batch message follows, without its schema, which is always `SCHEMA`. The two facts about records,
null keys and the largest size, let a log refuse a block without decoding it.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from millstream.core.records import Headers, UnreadableHeaders, check_headers
from millstream.errors import CorruptLogError, RecordRefusedError
from millstream.log.arrays import from_integers, null_mask, to_numbers

SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.binary()),
    ]
)
"""The columns of a block. Headers are null if a record has none, else encoded by `encode_headers`."""

Column: TypeAlias = "Sequence[bytes | None] | pa.Array"

_VERSION = 1
_COMPRESSED = 1
_NULL_KEY = 2
_START = struct.Struct("<BBHI")
_FACTS = struct.Struct("<II")
_START_SIZE = _START.size + _FACTS.size
_MAX_COLUMN = 2**31 - 1
_MAX_BLOCK = 900_000_000

# LZ4 skips random data at 3 GB/s, so an attempt costs less than a heuristic would save.
_CODEC = pa.Codec("lz4_raw")
_WORTHWHILE = 0.9

_headers_encoder = msgspec.msgpack.Encoder()
_headers_decoder = msgspec.msgpack.Decoder(Headers)
_reason_decoder = msgspec.msgpack.Decoder(str)


class Block(NamedTuple):
    """An encoded block and its metadata.

    Attributes:
        data: The encoded block.
        count: The number of records.
        min_timestamp: The least timestamp of its records, 0 if there are none.
        max_timestamp: The greatest timestamp of its records, 0 if there are none.
    """

    data: bytes
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    min_timestamp: int
    max_timestamp: int


class ColumnBlock(NamedTuple):
    """Records as columns that are not encoded. A log that stores no blocks writes them as they are.

    Attributes:
        timestamps: Milliseconds since the epoch.
        keys: Bytes, or None.
        values: Bytes, or None.
        headers: None if no record has any.
    """

    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None = None

    @property
    def count(self) -> int:  # type: ignore[override]  # hides tuple.count, which is not used
        """The number of records."""
        return len(self.timestamps)


def as_block(block: Block | ColumnBlock) -> Block:
    """Returns an encoded block.

    Raises:
        RecordRefusedError: A column has values of another type, or the columns differ in length.

    >>> decode(as_block(ColumnBlock([5], [b"k"], [b"v"])).data)["key"].to_pylist()
    [b'k']
    """
    return encode(*block) if isinstance(block, ColumnBlock) else block


class BlockFacts(NamedTuple):
    """Facts about the records of a block, from its first bytes.

    Attributes:
        null_key: Whether some record has no key.
        largest: The size of the largest record: key, value and headers together.
    """

    null_key: bool
    largest: int


def encode(
    timestamps: Sequence[int] | pa.Array,
    keys: Column,
    values: Column,
    headers: Sequence[Headers] | pa.Array | None = None,
) -> Block:
    """Encodes records as a block, from columns.

    Args:
        timestamps: Milliseconds since the epoch.
        keys: Bytes, or None.
        values: Bytes, or None.
        headers: None if no record has any. In an Arrow array, they are encoded by `encode_headers`.

    Raises:
        RecordRefusedError: A column has values of another type, or the columns differ in length.

    >>> block = encode([7, 5], [b"k", None], [b"v", b"w"])
    >>> block.count, block.min_timestamp, block.max_timestamp
    (2, 5, 7)
    >>> decode(block.data)["value"].to_pylist()
    [b'v', b'w']
    """
    return encode_batch(to_batch(timestamps, keys, values, headers))


def to_batch(
    timestamps: Sequence[int] | pa.Array,
    keys: Column,
    values: Column,
    headers: Sequence[Headers] | pa.Array | None = None,
) -> pa.RecordBatch:
    """Returns the record batch that `encode` encodes. Arguments and errors are the same."""
    if headers is None:
        headers = pa.nulls(len(timestamps), pa.binary())
    elif not isinstance(headers, pa.Array):
        headers = headers_column(headers)
    columns = [
        timestamps if isinstance(timestamps, pa.Array) else _timestamps(timestamps),
        keys if isinstance(keys, pa.Array) else _binary(keys, "key"),
        values if isinstance(values, pa.Array) else _binary(values, "value"),
        headers,
    ]
    try:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    except (TypeError, ValueError) as error:
        raise RecordRefusedError(f"the columns are not valid records: {error}") from error


def headers_column(headers: Sequence[Headers]) -> pa.Array:
    """Returns the column of a block with the headers of records.

    Raises:
        RecordRefusedError: Headers are not valid.
    """
    try:
        for pairs in filter(None, headers):
            check_headers(pairs)
    except (TypeError, ValueError) as error:
        hint = 'headers are pairs of str and bytes or None, such as (("trace", b"1"),)'
        raise RecordRefusedError(f"the headers of a record are not valid: {error}", hint=hint) from None
    return _binary([encode_headers(pairs) for pairs in headers], "headers")


def _timestamps(column: Sequence[int]) -> pa.Array:
    if set(map(type, column)) - {int}:
        wrong = next(value for value in column if type(value) is not int)
        raise RecordRefusedError(f"the timestamp of a record is {type(wrong).__name__}, not int")
    try:
        return from_integers(np.fromiter(column, np.int64, len(column)))
    except OverflowError as error:
        raise RecordRefusedError("the timestamp of a record has more than 64 bits") from error


def _binary(column: Sequence[bytes | None], name: str) -> pa.Array:
    valid, nulls = None, column.count(None)
    if nulls:
        mask = np.fromiter((value is not None for value in column), np.bool_, len(column))
        valid = pa.py_buffer(np.packbits(mask, bitorder="little"))
        column = [b"" if value is None else value for value in column]
    try:
        data = b"".join(column)  # type: ignore[arg-type]  # no None is left in it
    except TypeError:
        wrong = next(value for value in column if not isinstance(value, bytes))
        message = f"the {name} of a record is {type(wrong).__name__}, not bytes"
        raise RecordRefusedError(message, hint="a log stores bytes: serialize keys and values first") from None
    if len(data) > _MAX_COLUMN:
        raise RecordRefusedError(f"column {name!r} has more than 2 GB", hint="write fewer records at once")
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, column), np.int32, len(column)), out=offsets[1:])  # type: ignore[arg-type]
    if offsets[-1] != len(data):  # an array of numbers also has bytes, but more of them than elements
        wrong = next(value for value in column if not isinstance(value, bytes))
        raise RecordRefusedError(f"the {name} of a record is {type(wrong).__name__}, not bytes")
    return pa.Array.from_buffers(pa.binary(), len(column), [valid, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def encode_batch(batch: pa.RecordBatch) -> Block:
    """Encodes a record batch with the columns of `SCHEMA` as a block.

    Raises:
        RecordRefusedError: The columns differ, or a timestamp is null.
    """
    if batch.schema != SCHEMA:
        raise RecordRefusedError(f"a block has the columns {SCHEMA.names}, not {batch.schema.names}")
    timestamps = batch.column(0)
    if timestamps.null_count:
        raise RecordRefusedError("a record has no timestamp")
    message = batch.serialize()
    if message.size > _MAX_BLOCK:
        raise RecordRefusedError("a block has at most 0.9 GB", hint="write fewer records at once")
    compressed = _CODEC.compress(message)
    packed = compressed.size < _WORTHWHILE * message.size
    facts = _FACTS.pack(message.size, _largest(batch))
    flags = (_COMPRESSED if packed else 0) | (_NULL_KEY if batch.column(1).null_count else 0)
    body = compressed if packed else message
    checksum = zlib.crc32(body, zlib.crc32(facts, flags))
    data = b"".join((_START.pack(_VERSION, flags, 0, checksum), facts, memoryview(body)))
    if not len(batch):
        return Block(data, 0, 0, 0)
    numbers = to_numbers(timestamps)
    return Block(data, len(batch), int(numbers.min()), int(numbers.max()))


def _largest(batch: pa.RecordBatch) -> int:
    """Returns the size of the largest record."""
    if not len(batch):
        return 0
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns[1:]:
        if column.null_count < len(column):
            offsets = np.frombuffer(column.buffers()[1] or b"", np.int32, len(column) + 1, column.offset * 4)
            # Nulls have no bytes in arrays that Arrow creates, but may have in others.
            lengths = np.diff(offsets)
            sizes += lengths if not column.null_count else np.where(null_mask(column), 0, lengths)
    return int(sizes.max())


def facts(data: bytes) -> BlockFacts:
    """Returns the facts in the first bytes of a block. They are not verified: `decode` does that."""
    if len(data) < _START_SIZE:
        raise CorruptLogError(f"a block has at least {_START_SIZE} bytes, not {len(data)}")
    return BlockFacts(bool(data[1] & _NULL_KEY), _FACTS.unpack_from(data, _START.size)[1])


def decode(data: bytes) -> pa.RecordBatch:
    """Returns the records of a block. They share the memory of `data`, unless it is compressed.

    Raises:
        CorruptLogError: The bytes are not a block, or have another format version.
    """
    if len(data) < _START_SIZE:
        raise CorruptLogError(f"a block has at least {_START_SIZE} bytes, not {len(data)}")
    version, flags, zero, checksum = _START.unpack_from(data)
    if version != _VERSION:
        hint = "it was written by a later version of Millstream, or is damaged"
        raise CorruptLogError(f"a block has format version {version}, not {_VERSION}", hint=hint)
    content = pa.py_buffer(data)[_START_SIZE:]
    if zero or zlib.crc32(content, zlib.crc32(data[_START.size : _START_SIZE], flags)) != checksum:
        raise CorruptLogError("the checksum of a block does not match its bytes")
    size, _ = _FACTS.unpack_from(data, _START.size)
    try:
        message = _CODEC.decompress(content, size) if flags & _COMPRESSED else content
        return pa.ipc.read_record_batch(message, SCHEMA)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptLogError(f"a block cannot be read: {error}") from error


def encode_headers(headers: Headers) -> bytes | None:
    """Returns headers encoded as bytes; None if there are none.

    >>> decode_headers(encode_headers((("trace", b"1"), ("empty", None))))
    (('trace', b'1'), ('empty', None))

    Raises:
        RecordRefusedError: A name cannot be encoded as UTF-8.
    """
    try:
        return _headers_encoder.encode(headers) if headers else None
    except UnicodeEncodeError as error:
        raise RecordRefusedError("the name of a header contains half of a surrogate pair") from error


def encode_unreadable(reason: str) -> bytes:
    """Returns bytes for headers that could not be read, from which `decode_headers` returns the reason."""
    return _headers_encoder.encode(reason)


def decode_headers(data: bytes | None) -> Headers:
    """Returns the headers that `encode_headers` has encoded; `UnreadableHeaders` if the bytes are not headers.

    >>> decode_headers(encode_unreadable("a name is not UTF-8")).reason
    'a name is not UTF-8'
    """
    if data is None:
        return ()
    try:
        return _headers_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = str(error)
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        reason = _reason_decoder.decode(data)
    return UnreadableHeaders(reason)
