"""The Protobuf messages of dates, times of day and decimals, which Protobuf's runtime does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from millstream.schemas.protobuf.descriptors import Messages

_FieldProto = descriptor_pb2.FieldDescriptorProto
_INT32, _UINT32, _BYTES, _STRING = 5, 13, 12, 9

DATE_NAME, TIME_NAME, DECIMAL_NAME = "google.type.Date", "google.type.TimeOfDay", "confluent.type.Decimal"
TIMESTAMP_NAME = "google.protobuf.Timestamp"

TEXTS = {
    "google/type/date.proto": (
        'syntax = "proto3"; package google.type; message Date {int32 year = 1; int32 month = 2; int32 day = 3;}'
    ),
    "google/type/timeofday.proto": (
        'syntax = "proto3"; package google.type; '
        "message TimeOfDay {int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4;}"
    ),
    "confluent/meta.proto": (
        'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto"; '
        "message Meta {string doc = 1; map<string, string> params = 2;} "
        "extend google.protobuf.FileOptions {Meta file_meta = 1088;} "
        "extend google.protobuf.MessageOptions {Meta message_meta = 1088;} "
        "extend google.protobuf.FieldOptions {Meta field_meta = 1088;} "
        "extend google.protobuf.EnumOptions {Meta enum_meta = 1088;} "
        "extend google.protobuf.EnumValueOptions {Meta enum_value_meta = 1088;}"
    ),
    # Schemas use the options of meta.proto without an import of it.
    "confluent/type/decimal.proto": (
        'syntax = "proto3"; package confluent.type; import public "confluent/meta.proto"; '
        "message Decimal {bytes value = 1; uint32 precision = 2; int32 scale = 3;}"
    ),
}
"""The files, as text for the compiler."""


def _file(name: str, package: str, message: str, fields: Iterable[tuple[str, int]]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    added = file.message_type.add(name=message)
    for number, (field, type_) in enumerate(fields, 1):
        added.field.add(name=field, number=number, type=type_, label=_FieldProto.LABEL_OPTIONAL)
    return file


_FILES = {
    file.name: file
    for file in (
        _file("google/type/date.proto", "google.type", "Date", [(n, _INT32) for n in ("year", "month", "day")]),
        _file(
            "google/type/timeofday.proto",
            "google.type",
            "TimeOfDay",
            [(n, _INT32) for n in ("hours", "minutes", "seconds", "nanos")],
        ),
        _file("confluent/meta.proto", "confluent", "Meta", [("doc", _STRING)]),
        _file(
            "confluent/type/decimal.proto",
            "confluent.type",
            "Decimal",
            [("value", _BYTES), ("precision", _UINT32), ("scale", _INT32)],
        ),
    )
}


class RowMessages(Messages):
    """The messages of files that may import the types of this module."""

    def _add_built_in(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in _FILES:
                super()._add_built_in([name])
            elif name not in self._known:
                self._known.add(name)
                self._pool.AddSerializedFile(_FILES[name].SerializeToString())


def _options_class() -> Any:
    """Returns the class that reads the parameters in the options of a field: field 1088 of `FieldOptions`."""
    file = descriptor_pb2.FileDescriptorProto(name="millstream/options.proto", syntax="proto3")
    parameter = file.message_type.add(name="Parameter")
    for number, name in enumerate(("key", "value"), 1):
        parameter.field.add(name=name, number=number, type=_STRING, label=_FieldProto.LABEL_OPTIONAL)
    meta = file.message_type.add(name="Meta")
    meta.field.add(name="params", number=2, type=11, type_name=".Parameter", label=_FieldProto.LABEL_REPEATED)
    options = file.message_type.add(name="Options")
    options.field.add(name="meta", number=1088, type=11, type_name=".Meta", label=_FieldProto.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Options"))


_Options = _options_class()


def decimal_options(precision: int, scale: int) -> bytes:
    """Returns the options of a field with a decimal."""
    options = _Options()
    for key, value in (("precision", precision), ("scale", scale)):
        options.meta.params.add(key=key, value=str(value))
    return bytes(options.SerializeToString())


def parameters_of(field: Any) -> dict[str, str]:
    """Returns the parameters in the options of a field."""
    options = _Options.FromString(field.GetOptions().SerializeToString())
    return {parameter.key: parameter.value for parameter in options.meta.params}
