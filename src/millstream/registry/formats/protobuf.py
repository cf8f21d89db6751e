"""Protobuf schemas in a registry: texts of ``.proto`` files, or file descriptors in base64."""

from __future__ import annotations

import base64
import binascii
import functools
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from millstream.errors import InvalidSchemaError, SetupError
from millstream.registry.formats.problems import Finding, Sides

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

_MAIN = "millstream_schema.proto"
_SECONDS = 60


class ProtobufSchema(NamedTuple):
    """A parsed schema.

    Attributes:
        file: Its file.
        others: The files that it imports, with those that they import.
    """

    file: FileDescriptorProto
    others: tuple[FileDescriptorProto, ...]


class ProtobufFormat:
    """Parses, normalizes and compares Protobuf schemas."""

    keeps_normal = False

    def parse(self, text: str, references: Sequence[tuple[str, str]]) -> ProtobufSchema:
        """Parses a schema. The text of a ``.proto`` file is compiled by the protoc of grpcio-tools.

        Raises:
            InvalidSchemaError: It is not a schema, or an import is missing.
            SetupError: The compiler is not installed.
        """
        return _parse(text, tuple(references))

    def canonical(self, text: str) -> str:
        """Returns the text without white space at the ends of lines."""
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    def normal(self, parsed: ProtobufSchema) -> str:
        """Returns the descriptor of the file in a fixed order, without comments and formatting."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415

        copy = FileDescriptorProto()
        copy.CopyFrom(parsed.file)
        copy.ClearField("name")
        copy.ClearField("source_code_info")
        _sort_messages(copy)
        return base64.b64encode(copy.SerializeToString(deterministic=True)).decode()

    def compare(self, reader: ProtobufSchema, writer: ProtobufSchema, sides: Sides) -> list[Finding]:
        """Returns why records of the writer's schema cannot be read with the reader's."""
        from millstream.registry.formats.protobuf_compatibility import compare_protobuf  # noqa: PLC0415

        return compare_protobuf(reader, writer, sides)


@functools.lru_cache(maxsize=256)
def _parse(text: str, references: tuple[tuple[str, str], ...]) -> ProtobufSchema:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415  (Avro does not need it)

    file = _decoded(text)
    if file is not None and not references:
        return ProtobufSchema(file, ())
    with tempfile.TemporaryDirectory(prefix="millstream-protobuf-") as folder:
        arguments = []
        for name, content in references:
            _write(Path(folder), name, content)
        if file is not None:
            # protoc takes no single descriptor: its imports alone are compiled.
            arguments = [name for name, _content in references]
        else:
            (Path(folder) / _MAIN).write_text(text, encoding="utf-8")
            arguments = [_MAIN]
        output = _compile(Path(folder), arguments)
        files = list(FileDescriptorSet.FromString(output).file)
    others = tuple(each for each in files if each.name != _MAIN)
    return ProtobufSchema(file or next(each for each in files if each.name == _MAIN), others)


def _write(folder: Path, name: str, content: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InvalidSchemaError(f"the reference {name!r} is not a path of a .proto file")
    if _decoded(content) is not None:
        raise InvalidSchemaError(f"the reference {name!r} is a descriptor: register it as text")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, encoding="utf-8")


def _decoded(text: str) -> FileDescriptorProto | None:
    """Returns the file descriptor of a text in base64; None if the text is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        content = base64.b64decode("".join(text.split()), validate=True)
        return FileDescriptorProto.FromString(content) if content else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compile(folder: Path, names: list[str]) -> bytes:
    """Compiles files to a set of descriptors, in a process of its own: protoc prints its errors, and may crash."""
    try:
        import grpc_tools  # noqa: PLC0415  (it may not be installed)
    except ImportError:
        hint = 'pip install "millstream[protobuf]"'
        raise SetupError("the text of a .proto file needs the package grpcio-tools", hint=hint) from None
    well_known = Path(grpc_tools.__path__[0]) / "_proto"
    arguments = [f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={folder / 'set.bin'}", "--include_imports"]
    try:
        done = subprocess.run(  # noqa: S603  (this Python)
            [sys.executable, "-m", "grpc_tools.protoc", *arguments, *names],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise InvalidSchemaError(f"the .proto file is not compiled after {_SECONDS} s") from None
    if done.returncode:
        # Messages about the file begin with its name; others are about protoc itself.
        lines = [line for line in done.stderr.splitlines() if ".proto:" in line and ": warning: " not in line]
        problem = (lines or ["protoc gives no reason"])[0]
        missing = any("File not found" in line for line in lines)
        advice = "an import needs a reference to its schema" if missing else None
        raise InvalidSchemaError(f"not a Protobuf schema: {problem.replace(f'{_MAIN}:', 'line ')}", hint=advice)
    return (folder / "set.bin").read_bytes()


def _sort_messages(holder: FileDescriptorProto | DescriptorProto) -> None:
    messages = holder.message_type if hasattr(holder, "message_type") else holder.nested_type
    for message in messages:
        message.field.sort(key=lambda field: field.number)
        for field in message.field:
            field.ClearField("json_name")
        _sort_messages(message)
    messages.sort(key=_name)
    holder.enum_type.sort(key=_name)


def _name(each: DescriptorProto | EnumDescriptorProto) -> str:
    return str(each.name)
