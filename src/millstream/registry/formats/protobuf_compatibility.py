"""Which Protobuf schemas can read the records of which others: the rules of Confluent's registry.

Fields are the same if their numbers are: names may change, and so may the package. A type may change to another one
with the same encoding. A message must not be removed, since records may have it, nor a field of a ``oneof`` that stays.
Fields that a record may have together must not be joined in a ``oneof``: all but one would be lost. That includes the
fields of two oneofs that become one, which Confluent's registry may accept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from millstream.registry.formats.problems import Finding, Sides
from millstream.registry.formats.protobuf import ProtobufSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

_GROUPS = (
    frozenset({"int32", "int64", "uint32", "uint64", "bool", "enum"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
    frozenset({"string", "bytes"}),
)
_LENGTH_DELIMITED = frozenset({"string", "bytes", "message"})


class _Field(NamedTuple):
    """A field of a message.

    Attributes:
        name: Its name.
        kind: The name of its type: ``int32``, ``message``, …
        type_name: The name of its message or enum, without the package.
        label: ``optional``, ``required`` or ``repeated``.
        one_of: The name of its oneof, if it has one.
    """

    name: str
    kind: str
    type_name: str
    label: str
    one_of: str | None

    def __str__(self) -> str:
        named = f"{self.kind} {self.type_name}" if self.type_name else self.kind
        return f"repeated {named}" if self.label == "repeated" else named


class _Message(NamedTuple):
    """A message: its fields by number, and whether it is an entry of a map or an imported one."""

    fields: dict[int, _Field]
    is_entry: bool
    is_imported: bool


def compare_protobuf(reader: ProtobufSchema, writer: ProtobufSchema, sides: Sides) -> list[Finding]:
    """Returns why records of the writer's schema cannot be read with the reader's: nothing if they can."""
    new, old = _messages(reader), _messages(writer)
    findings: list[Finding] = []
    for name, message in old.items():
        if message.is_entry:
            continue
        if name in new:
            compared = _compare(new[name], message, (new, old), sides)
            findings += (finding.below(name) for finding in compared)
        elif not message.is_imported:
            findings.append(Finding(name, f"{sides.reader} lacks this message of {sides.writer}"))
    return findings


def _compare(
    new: _Message, old: _Message, messages: tuple[dict[str, _Message], dict[str, _Message]], sides: Sides
) -> list[Finding]:
    findings: list[Finding] = []
    for number, field in old.fields.items():
        if number in new.fields:
            problem = _type_problem(new.fields[number], field, messages, sides)
            if problem is not None:
                findings.append(Finding(field.name, problem))
        elif field.label == "required":
            findings.append(Finding(field.name, f"{sides.writer} requires this field, {sides.reader} lacks it"))
        elif field.one_of is not None and field.one_of in _one_ofs(new):
            text = f"{sides.reader} removes this field from the oneof {field.one_of}"
            findings.append(Finding(field.name, text))
    findings += (
        Finding(field.name, f"{sides.reader} requires this field, {sides.writer} lacks it")
        for number, field in new.fields.items()
        if number not in old.fields and field.label == "required"
    )
    return [*findings, *_moves(new, old, sides)]


def _moves(new: _Message, old: _Message, sides: Sides) -> Iterator[Finding]:
    """Finds fields that move into a oneof with others, although a record may have both."""
    for one_of in dict.fromkeys(filter(None, (field.one_of for field in new.fields.values()))):
        joined = [
            (field.name, old.fields[number].one_of)
            for number, field in new.fields.items()
            if field.one_of == one_of and number in old.fields
        ]
        moved = [name for name, former in joined if former is None]
        former_one_ofs = {former for _name, former in joined if former is not None}
        if len(moved) + len(former_one_ofs) < 2:
            continue
        if len(moved) == 1:
            yield Finding(moved[0], f"{sides.reader} moves this field into the oneof {one_of} of {sides.writer}")
        elif moved:
            yield Finding(one_of, f"{sides.reader} moves several fields into one oneof: {', '.join(moved)}")
        else:
            merged = ", ".join(sorted(former_one_ofs))
            yield Finding(one_of, f"{sides.reader} merges several oneofs of {sides.writer} into one: {merged}")


def _type_problem(
    new: _Field, old: _Field, messages: tuple[dict[str, _Message], dict[str, _Message]], sides: Sides
) -> str | None:
    maps = _entry(new, messages[0]), _entry(old, messages[1])
    if maps[0] is not None and maps[1] is not None:
        inner = _compare(maps[0], maps[1], messages, sides)
        return f"the map changes: {inner[0]}" if inner else None
    if "required" in {new.label, old.label} and new.label != old.label:
        return f"{sides.writer} has it {old.label}, {sides.reader} {new.label}"
    if new.kind == old.kind:
        changed = new.kind in {"message", "group"} and new.type_name != old.type_name
    else:
        changed = not any({new.kind, old.kind} <= group for group in _GROUPS)
    repeated = (new.label == "repeated") != (old.label == "repeated")
    if changed or (repeated and not {new.kind, old.kind} <= _LENGTH_DELIMITED):
        return f"{sides.writer} has {old}, {sides.reader} {new}"
    return None


def _entry(field: _Field, messages: dict[str, _Message]) -> _Message | None:
    message = messages.get(field.type_name) if field.kind == "message" else None
    return message if message is not None and message.is_entry else None


def _one_ofs(message: _Message) -> set[str]:
    return {field.one_of for field in message.fields.values() if field.one_of is not None}


# ----- descriptors ---------------------------------------------------------------------------------------------------


def _messages(schema: ProtobufSchema) -> dict[str, _Message]:
    """Returns the messages of a file and of its imports, by their names without the package of the file."""
    package = _prefix(schema.file.package)
    messages: dict[str, _Message] = {}
    for file in schema.others:
        if file.package != "google.protobuf":
            messages |= _flat(file.message_type, _prefix(file.package).removeprefix(package), package, is_imported=True)
    return messages | _flat(schema.file.message_type, "", package, is_imported=False)


def _flat(declared: Iterable[DescriptorProto], prefix: str, package: str, *, is_imported: bool) -> dict[str, _Message]:
    messages: dict[str, _Message] = {}
    for message in declared:
        name = f"{prefix}{message.name}"
        fields = {field.number: _field(field, message, package) for field in message.field}
        messages[name] = _Message(fields, message.options.map_entry, is_imported)
        messages |= _flat(message.nested_type, f"{name}.", package, is_imported=is_imported)
    return messages


def _prefix(package: str) -> str:
    return f"{package}." if package else ""


def _field(field: FieldDescriptorProto, message: DescriptorProto, package: str) -> _Field:
    type_name = field.type_name.removeprefix(".").removeprefix(package)
    kind = field.Type.Name(field.type).removeprefix("TYPE_").lower()
    label = field.Label.Name(field.label).removeprefix("LABEL_").lower()
    in_one_of = field.HasField("oneof_index") and not field.proto3_optional
    one_of = message.oneof_decl[field.oneof_index].name if in_one_of else None
    return _Field(field.name, kind, type_name, label, one_of)
