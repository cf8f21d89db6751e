"""Random Protobuf messages."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2
from hypothesis import strategies as st

from millstream.schemas.protobuf.descriptors import Files, Messages, class_of

_FIELD: Any = descriptor_pb2.FieldDescriptorProto
_LONG, _INT = (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1)

SCALARS: list[tuple[int, st.SearchStrategy[Any]]] = [
    (_FIELD.TYPE_DOUBLE, st.floats(allow_nan=False)),
    (_FIELD.TYPE_FLOAT, st.floats(width=32, allow_nan=False)),
    (_FIELD.TYPE_INT64, st.integers(*_LONG)),
    (_FIELD.TYPE_UINT64, st.integers(0, 2**64 - 1)),
    (_FIELD.TYPE_INT32, st.integers(*_INT)),
    (_FIELD.TYPE_FIXED64, st.integers(0, 2**64 - 1)),
    (_FIELD.TYPE_FIXED32, st.integers(0, 2**32 - 1)),
    (_FIELD.TYPE_BOOL, st.booleans()),
    (_FIELD.TYPE_STRING, st.text(max_size=8)),
    (_FIELD.TYPE_BYTES, st.binary(max_size=8)),
    (_FIELD.TYPE_UINT32, st.integers(0, 2**32 - 1)),
    (_FIELD.TYPE_SFIXED32, st.integers(*_INT)),
    (_FIELD.TYPE_SFIXED64, st.integers(*_LONG)),
    (_FIELD.TYPE_SINT32, st.integers(*_INT)),
    (_FIELD.TYPE_SINT64, st.integers(*_LONG)),
]


@st.composite
def files(draw: st.DrawFn, name: str) -> Any:
    """A file with some messages, nested ones among them; a message may contain those before it, and itself."""
    file: Any = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3", package="acme")
    file.enum_type.add(name="Color").value.extend(
        [descriptor_pb2.EnumValueDescriptorProto(name=f"C{n}", number=n) for n in range(3)]
    )
    file.dependency.append("google/protobuf/timestamp.proto")
    known: list[str] = [".google.protobuf.Timestamp"]
    for index in range(draw(st.integers(1, 3))):
        message = file.message_type.add(name=f"M{index}")
        known.append(f".acme.M{index}")
        _fields(draw, message, known)
        if draw(st.booleans()):
            nested = message.nested_type.add(name="Nested")
            _fields(draw, nested, known)
            known.append(f".acme.M{index}.Nested")
    return file


def _fields(draw: st.DrawFn, message: Any, known: list[str]) -> None:
    optional = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        field = message.field.add(name=f"f{number}", number=number, label=_FIELD.LABEL_OPTIONAL)
        kind = draw(st.sampled_from(["scalar", "scalar", "message", "enum"]))
        if kind == "message":
            field.type, field.type_name = _FIELD.TYPE_MESSAGE, draw(st.sampled_from(known))
        elif kind == "enum":
            field.type, field.type_name = _FIELD.TYPE_ENUM, ".acme.Color"
        else:
            field.type = draw(st.sampled_from(SCALARS))[0]
        form = draw(st.sampled_from(["single", "repeated", "presence", "oneof"]))
        if form == "repeated":
            field.label = _FIELD.LABEL_REPEATED
        elif form == "oneof":
            if not message.oneof_decl:
                message.oneof_decl.add(name="choice")
            field.oneof_index = 0
        elif form == "presence" and kind == "scalar":
            field.proto3_optional = True
            optional.append(field)
    for field in optional:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def classes(file: Any) -> list[Any]:
    """The classes of the messages of a file."""
    top = Messages(Files((file.SerializeToString(),))).file.message_types_by_name.values()
    return [class_of(descriptor) for message in top for descriptor in (message, *message.nested_types)]


def fill(draw: Any, message: Any, depth: int = 2) -> Any:
    """Sets fields of a message."""
    for field in message.DESCRIPTOR.fields:
        if draw(st.booleans()):
            continue
        if field.message_type is not None:
            if depth == 0:
                continue
            target = getattr(message, field.name)
            if field.is_repeated:
                fill(draw, target.add(), depth - 1)
            elif field.message_type.name == "Timestamp":
                target.seconds = draw(st.integers(0, 10**9))
            else:
                target.SetInParent()
                fill(draw, target, depth - 1)
            continue
        strategy = st.integers(0, 2) if field.enum_type is not None else dict(SCALARS)[field.type]
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(strategy, max_size=3)))
        else:
            setattr(message, field.name, draw(strategy))
    return message
