"""Descriptors of Protobuf messages: from classes, from ``.proto`` text, and from the schemas of a registry."""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from millstream.errors import InvalidSchemaError
from millstream.registry.api import Schema
from millstream.schemas.libraries import library
from millstream.schemas.serde import Parts

_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""The files that every reader has: they are no references of a schema."""

_COMPILE_SECONDS = 60
_NO_ERROR = re.compile(r"WARNING: |[IW]\d{4} ")
"""A line of the compiler's log that is no error of the schema."""


class Files(NamedTuple):
    """The files of a schema as serialized ``FileDescriptorProto``, each after those that it imports; its own is last.

    They can be pickled.
    """

    serialized: tuple[bytes, ...]

    @property
    def own(self) -> Any:
        """The file with the message."""
        return descriptor_pb2.FileDescriptorProto.FromString(self.serialized[-1])


def is_built_in(name: str) -> bool:
    """Whether every reader has a file."""
    return name.startswith(_BUILT_IN)


def files_of_class(cls: Any) -> Files:
    """Returns the files of a generated class."""
    found: dict[str, bytes] = {}

    def add(file: Any) -> None:
        for dependency in file.dependencies:
            if not is_built_in(dependency.name) and dependency.name not in found:
                add(dependency)
        found[file.name] = file.serialized_pb

    add(cls.DESCRIPTOR.file)
    return Files(tuple(found.values()))


def files_of_schema(schema: Schema, parts: Parts) -> Files:
    """Returns the files of a schema of a registry: text, or descriptors in base64.

    Raises:
        InvalidSchemaError: It is not a valid schema.
    """
    name = "schema.proto"
    while any(name == part for part, _ in parts):
        name = f"_{name}"
    texts = {**{part: s.text for part, s in parts}, name: schema.text}
    decoded = {file: _decoded(text, file) for file, text in texts.items()}
    if all(file is not None for file in decoded.values()):
        return Files(tuple(file for file in decoded.values() if file is not None))
    if any(file is not None for file in decoded.values()):
        raise InvalidSchemaError("a Protobuf schema is text, and one that it refers to is in base64, or the reverse")
    return compiled(name, texts)


def _decoded(text: str, name: str) -> bytes | None:
    try:
        data = base64.b64decode(text.strip(), validate=True)
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    file.name = name
    return bytes(file.SerializeToString())


def base64_of(file: bytes) -> str:
    """Returns a file in the form of the registry's schemas."""
    return base64.standard_b64encode(file).decode("ascii")


def compiled(name: str, texts: Mapping[str, str], directory: Path | None = None) -> Files:
    """Compiles the text of a file.

    Args:
        name: The name of the file.
        texts: The texts of the file and of others, by name.
        directory: Where other files are that it imports.

    Raises:
        InvalidSchemaError: It is not valid.
        SetupError: grpcio-tools is not installed.
    """
    tools = library("grpc_tools", "grpcio-tools", "protobuf")
    with tempfile.TemporaryDirectory(prefix="millstream-") as temporary:
        for path, text in texts.items():
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or "\0" in path or path.startswith("-"):
                raise InvalidSchemaError(f"{path!r} is not the name of a file of a schema")
            target = Path(temporary, "files", pure)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            except (OSError, UnicodeEncodeError) as error:  # a name that is too long, or that of a folder
                raise InvalidSchemaError(f"{path!r:.200} cannot be the name of a file of a schema") from error
        out = Path(temporary, "descriptors")
        folders = [Path(temporary, "files"), *([] if directory is None else [directory])]
        folders.append(Path(tools.__file__).parent / "_proto")
        # Another process: the compiler writes its errors to standard error, and a crash would end this one.
        command = [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{folder}" for folder in folders)]
        command += ["--include_imports", f"--descriptor_set_out={out}", name]
        try:
            # The arguments are paths of this function and a checked name.
            result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise InvalidSchemaError(f"the Protobuf compiler has not ended after {_COMPILE_SECONDS} s") from None
        if result.returncode != 0:
            lines = result.stderr.replace(f"{temporary}/files/", "").splitlines()
            errors = "\n".join(line for line in lines if not _NO_ERROR.match(line)).strip()
            raise InvalidSchemaError(f"not a valid Protobuf schema: {errors}")
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    return Files(tuple(file.SerializeToString() for file in files if not is_built_in(file.name)))


class Messages:
    """The classes of the messages of files, in a pool of their own."""

    def __init__(self, files: Files) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._known: set[str] = set()
        try:
            for data in files.serialized:
                file = descriptor_pb2.FileDescriptorProto.FromString(data)
                self._add_built_in(file.dependency)
                self._pool.Add(file)
            self.file = self._pool.FindFileByName(files.own.name)
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidSchemaError(f"not a valid Protobuf schema: {error}") from error

    def _add_built_in(self, names: Iterable[str]) -> None:
        for name in names:
            if not is_built_in(name) or name in self._known:
                continue
            self._known.add(name)
            module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
            try:
                file = importlib.import_module(module).DESCRIPTOR
            except ImportError:
                raise InvalidSchemaError(f"the Protobuf schema imports {name}, which is not installed here") from None
            self._add_built_in(dependency.name for dependency in file.dependencies)
            self._pool.AddSerializedFile(file.serialized_pb)

    def named(self, name: str | None) -> Any:
        """Returns the descriptor of a message of the own file, by full or simple name; None: the only message.

        Raises:
            InvalidSchemaError: There is none.
        """
        top = list(self.file.message_types_by_name.values())
        names = ", ".join(message.full_name for message in top) or "none"
        if name is None:
            if len(top) == 1:
                return top[0]
            raise InvalidSchemaError(f"the Protobuf schema has several messages: {names}", hint="give the name of one")
        for candidate in (name, f"{self.file.package}.{name}"):
            try:
                found = self._pool.FindMessageTypeByName(candidate)
            except KeyError:
                continue
            if found.file.name == self.file.name:
                return found
        raise InvalidSchemaError(f"the Protobuf schema has no message {name!r}", hint=f"it has: {names}")

    def at(self, indexes: tuple[int, ...]) -> Any:
        """Returns the descriptor of a message by its indexes.

        Raises:
            ValueError: There is none.
        """
        found: Any = None
        candidates = list(self.file.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(candidates):
                raise ValueError(f"the schema has no message at {list(indexes)}")
            found = candidates[index]
            candidates = list(found.nested_types)
        return found


def class_of(descriptor: Any) -> Any:
    """Returns the class of the messages of a descriptor."""
    return message_factory.GetMessageClass(descriptor)


def indexes_of(descriptor: Any) -> tuple[int, ...]:
    """Returns the indexes of a message in its file: of the outermost message, and so on inwards."""
    if descriptor.containing_type is None:
        return (list(descriptor.file.message_types_by_name).index(descriptor.name),)
    outer = descriptor.containing_type
    names = [nested.name for nested in outer.nested_types]
    return (*indexes_of(outer), names.index(descriptor.name))


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    r"""Returns indexes as a record carries them: their number and each, in zigzag; a single zero byte for the first.

    >>> write_indexes((0,)), write_indexes((1, 0))
    (b'\x00', b'\x04\x02\x00')
    """
    if indexes == (0,):
        return b"\x00"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*data, number))


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Returns indexes, and the offset behind them.

    Raises:
        ValueError: The data ends, or has too many.
    """
    count, at = _read_varint(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= len(data):
        raise ValueError(f"it has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return tuple(indexes), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("its message indexes end too early")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
