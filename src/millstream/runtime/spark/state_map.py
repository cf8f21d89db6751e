"""A map of bytes in Spark's state store, read and written many entries at a time.

PySpark requests one entry, waits for the response and requests the next: 100 to 250 µs each, most of it waiting. The
JVM reads requests from a socket and answers them in order, so a client can send further requests meanwhile. This module
does so, below PySpark's public methods. It is the only one that depends on PySpark's private members and message
layout, those of the versions in `_KNOWN_VERSIONS`. With any other version it uses the public methods, entry by entry:
slower, with the same results.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar
from uuid import uuid4

import pyspark
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from millstream.errors import StateConnectionError

_T = TypeVar("_T")

_KNOWN_VERSIONS = ("4.3.0",)

# PySpark would send a schema given as text to the JVM for parsing, twice per partition and batch.
_KEY_SCHEMA = StructType([StructField("key", BinaryType())])
_VALUE_SCHEMA = StructType([StructField("value", BinaryType())])

_VERSION = bytes(4)
_BYTES_MARK = b"\nbytearray\nX"
_SEND_BYTES = 64 * 1024
_RECEIVE_BYTES = 1024 * 1024

_OK = 0
_NO_ENTRIES = 2


class StateMap:
    """The entries of one grouping key: bytes by bytes.

    Create it in the processor's `init`, and use it while a group is handled. Keys and values may be empty. Calls take
    effect in the order in which they are made.

    Attributes:
        pipelined: Whether many entries are sent at once; False for unknown versions of PySpark.
    """

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._entries = handle.getMapState(name, _KEY_SCHEMA, _VALUE_SCHEMA)
        self._pipeline = _pipeline_of(self._entries, name)
        self.pipelined = self._pipeline is not None

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """Returns the values of the keys, in their order, with None for a key that has no entry."""
        if self._pipeline is not None:
            # A list: an iterator might call the map itself, between requests and responses.
            return self._pipeline.get_many(list(keys))
        rows = [self._entries.getValue((key,)) for key in keys]
        return [None if row is None else bytes(row[0]) for row in rows]

    def put_many(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Adds entries, or replaces their values. Of several entries with the same key, the last one wins."""
        if self._pipeline is not None:
            self._pipeline.put_many(list(entries))
            return
        for key, value in entries:
            self._entries.updateValue((key,), (value,))

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Deletes entries. Keys without an entry are ignored."""
        if self._pipeline is not None:
            self._pipeline.delete_many(list(keys))
            return
        for key in keys:
            self._entries.removeKey((key,))

    def scan_keys(self) -> list[bytes]:
        """Returns all keys, in no particular order. The JVM reads the values too, but does not send them."""
        if self._pipeline is not None:
            return self._pipeline.scan_keys()
        return [bytes(row[0]) for row in self._entries.keys()]  # noqa: SIM118  (not a dictionary)


class _Pipeline:
    """Calls of one map state, many at a time, over PySpark's own connection to the JVM."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._connection = connection
        self._name = name
        # One request object is reused: building one per call takes five times as long.
        self._request = messages.StateRequest()
        self._call = self._request.stateVariableRequest.mapStateCall
        self._call.stateName = name
        self._ready = select.poll()
        self._ready.register(connection, select.POLLIN | select.POLLOUT)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        def requests() -> Iterator[bytes]:
            call = self._call.getValue
            for key in keys:
                call.userKey = _row(key)
                yield self._request.SerializeToString()

        return self._exchange(requests(), self._read_value)

    def put_many(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        def requests() -> Iterator[bytes]:
            call = self._call.updateValue
            for key, value in entries:
                call.userKey = _row(key)
                call.value = _row(value)
                yield self._request.SerializeToString()

        self._exchange(requests(), self._read_done)

    def delete_many(self, keys: Sequence[bytes]) -> None:
        def requests() -> Iterator[bytes]:
            call = self._call.removeKey
            for key in keys:
                call.userKey = _row(key)
                yield self._request.SerializeToString()

        self._exchange(requests(), self._read_done)

    def scan_keys(self) -> list[bytes]:
        self._call.keys.iteratorId = uuid4().hex
        request = self._request.SerializeToString()
        keys: list[bytes] = []
        more = True
        while more:
            [(part, more)] = self._exchange(iter([request]), self._read_keys)
            keys += part
        return keys

    def _read_value(self, body: bytes) -> bytes | None:
        response = messages.StateResponse.FromString(body)
        if response.statusCode != _OK:
            raise self._refused(response.errorMessage)
        return _bytes_of(response.value) if response.value else None

    def _read_done(self, body: bytes) -> None:
        # Protobuf omits zeros, so an empty body means success.
        if body:
            response = messages.StateResponse.FromString(body)
            if response.statusCode != _OK:
                raise self._refused(response.errorMessage)

    def _read_keys(self, body: bytes) -> tuple[list[bytes], bool]:
        response = messages.StateResponseWithMapKeysOrValues.FromString(body)
        if response.statusCode == _NO_ENTRIES:
            return [], False
        if response.statusCode != _OK:
            raise self._refused(response.errorMessage)
        return [_bytes_of(row) for row in response.value], response.requireNextFetch

    def _refused(self, reason: str) -> StateConnectionError:
        return StateConnectionError(f"Spark's state store refused a call on the map {self._name!r}: {reason}")

    def _exchange(self, requests: Iterator[bytes], read: Callable[[bytes], _T]) -> list[_T]:
        """Sends requests, and returns their responses, parsed by `read`, in order.

        The JVM answers a request before it reads the next one, so it reads none while its responses are not read. A
        blocking send could deadlock: whenever the connection is full, responses are read first.
        """
        responses: list[_T] = []
        received = bytearray()
        awaited = 0

        def receive() -> None:
            received.extend(self._receive())
            responses.extend(map(read, _take_bodies(received)))

        try:
            for count, outgoing in _frames(requests):
                awaited += count
                unsent = memoryview(outgoing)
                while unsent:
                    unsent = unsent[self._send(unsent) :]
                    if unsent and self._ready.poll()[0][1] & select.POLLIN:
                        receive()
            while len(responses) < awaited:
                receive()
        except BaseException:
            # Responses may still arrive. A later call must not take them for its own.
            self._disconnect()
            raise
        return responses

    def _send(self, data: memoryview) -> int:
        """Sends as many bytes as the connection accepts without blocking, and returns their number."""
        try:
            return self._connection.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost() from error

    def _receive(self) -> bytes:
        """Waits for data and returns it."""
        try:
            data = self._connection.recv(_RECEIVE_BYTES)
        except OSError as error:
            raise self._lost() from error
        if not data:
            raise self._lost()
        return data

    def _lost(self) -> StateConnectionError:
        return StateConnectionError(
            f"the connection to Spark's state store was lost during a call on the map {self._name!r}",
            hint="see the executor's log for the cause, near TransformWithStateInPySparkStateServer",
        )

    def _disconnect(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def _pipeline_of(entries: MapState, name: str) -> _Pipeline | None:
    """Returns a pipeline over PySpark's own connection; None for an unknown version."""
    if pyspark.__version__ not in _KNOWN_VERSIONS:
        return None
    try:
        connection = entries._mapStateClient._stateful_processor_api_client._client_socket
    except AttributeError:
        return None
    return _Pipeline(connection, name) if isinstance(connection, socket.socket) else None


def _frames(requests: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Packs requests as the JVM expects them: version, length, request. Yields their number and their bytes."""
    count = size = 0
    parts: list[bytes] = []
    for request in requests:
        parts += (_VERSION, len(request).to_bytes(4, "big"), request)
        count += 1
        size += len(request)
        if size >= _SEND_BYTES:
            yield count, b"".join(parts)
            count = size = 0
            parts.clear()
    if parts:
        yield count, b"".join(parts)


def _take_bodies(received: bytearray) -> list[bytes]:
    """Removes the complete responses from the front of the received bytes: each is its length, then its body."""
    bodies: list[bytes] = []
    start = 0
    while len(received) - start >= 4:
        end = start + 4 + int.from_bytes(received[start : start + 4], "big")
        if end > len(received):
            break
        bodies.append(bytes(received[start + 4 : end]))
        start = end
    del received[:start]
    return bodies


def _row(data: bytes) -> bytes:
    """Returns a row of one binary column as the JVM expects it: a pickled tuple."""
    return b"\x80\x03B%b%b\x85." % (len(data).to_bytes(4, "little"), data)


def _bytes_of(row: bytes) -> bytes:
    """Returns the bytes in a row of one binary column, as the JVM pickles it.

    A row begins with its schema. The bytes follow as a text of one character per byte, after its length. Extracting
    them is faster than unpickling the row, and runs no code that the row names.
    """
    start = row.index(_BYTES_MARK) + len(_BYTES_MARK) + 4
    end = start + int.from_bytes(row[start - 4 : start], "little")
    return row[start:end].decode().encode("latin-1")
