"""The JSON form of Protobuf messages is the canonical one of Protobuf's specification."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import protobuf
from millstream.errors import SerializationError
from millstream.schemas.json_values import to_json_value
from tests.schemas.confluent import MockRegistry, bound

PROTO = """
syntax = "proto3";
package acme;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Values {
  int32 small_number = 1;
  int64 long_number = 2;
  uint64 unsigned_number = 3;
  double real_number = 4;
  bool truth = 5;
  bytes raw_data = 6;
  Size size = 7;
  repeated int64 several = 8;
  map<bool, string> by_truth = 9;
  Values below = 10;
  optional int32 maybe = 11;
  google.protobuf.Timestamp at = 12;
  google.protobuf.Duration took = 13;
  google.protobuf.FieldMask mask = 14;
  google.protobuf.Struct free = 15;
  google.protobuf.Int64Value boxed = 16;
  google.protobuf.Empty nothing = 17;
  google.protobuf.Any anything = 18;
  string given = 19 [json_name = "otherName"];
  enum Size { UNKNOWN = 0; LARGE = 1; }
}
"""
registry = MockRegistry()


@pytest.fixture(scope="module")
def values() -> Any:
    return bound(protobuf(PROTO, "Values"), registry, "values")


@pytest.mark.parametrize(
    ("canonical", "accepted"),
    [
        ({"smallNumber": 5}, [{"small_number": 5}, {"smallNumber": "5"}, {"smallNumber": 5.0}]),
        ({"longNumber": "9223372036854775807"}, [{"longNumber": 9223372036854775807}]),
        ({"unsignedNumber": "18446744073709551615"}, [{"unsigned_number": "18446744073709551615"}]),
        ({"realNumber": 1.5}, [{"realNumber": "1.5"}]),
        ({"realNumber": "NaN"}, []),
        ({"realNumber": "-Infinity"}, []),
        ({"truth": True}, []),
        ({"rawData": "/+8="}, [{"rawData": "_-8="}, {"rawData": "/+8"}]),
        ({"size": "LARGE"}, [{"size": 1}]),
        ({"several": ["1", "2"]}, [{"several": [1, 2]}]),
        ({"byTruth": {"true": "yes"}}, []),
        ({"below": {"below": {"truth": True}}}, []),
        ({"maybe": 0}, []),
        ({}, [{"smallNumber": 0}, {"smallNumber": None}, {"size": "UNKNOWN"}, {"several": []}]),
        ({"at": "2026-01-31T12:30:00Z"}, [{"at": "2026-01-31T13:30:00+01:00"}, {"at": "2026-01-31T12:30:00.000Z"}]),
        ({"at": "2026-01-31T12:30:00.000001Z"}, []),
        ({"took": "1.500s"}, [{"took": "1.5s"}]),
        ({"mask": "smallNumber,below.truth"}, []),
        ({"free": {"a": [1.0, None, {"b": "c"}]}}, []),
        ({"boxed": "5"}, [{"boxed": 5}]),
        ({"nothing": {}}, []),
        ({"anything": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "3s"}}, []),
        ({"otherName": "x"}, [{"given": "x"}]),
    ],
)
def test_values_have_the_canonical_form_and_other_forms_are_read(canonical: Any, accepted: Any, values: Any) -> None:
    data = values.serialize(canonical)
    assert to_json_value(values.deserialize(data)) == canonical
    assert to_json_value(bound(protobuf(), registry, "values").deserialize(data)) == canonical
    for form in accepted:
        assert values.serialize(form) == data


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"smallNumber": 2**31}, "smallNumber"),
        ({"smallNumber": 1.5}, "smallNumber"),
        ({"truth": "yes"}, "truth"),
        ({"size": "HUGE"}, "size"),
        ({"at": "yesterday"}, "at"),
        ({"smalNumber": 1}, "smalNumber"),
        ({"several": 1}, "several"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_field(wrong: Any, field: str, values: Any) -> None:
    with pytest.raises(SerializationError, match=field):
        values.serialize(wrong)
