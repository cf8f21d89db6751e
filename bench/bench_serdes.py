"""Compares the serdes with schemas with msgspec's JSON and with confluent-kafka's serdes, in one run.

    python bench/bench_serdes.py [--records N] [--rounds N] [--json FILE]

Each serde writes and reads a record of ten fields. The serdes with schemas use confluent-kafka's registry in memory, as
its own serdes do. Times are processor time, rounds alternate between the cases, and the best of each counts, because
the machine may be busy.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from tests.schemas.confluent import MockRegistry, bound, value_of

from millstream import avro, json_schema, protobuf


class Order(msgspec.Struct):
    """Ten fields."""

    id: str
    customer: str
    item: str
    quantity: int
    price: float
    currency: str
    paid: bool
    placed: int
    note: str | None = None
    tags: list[str] = []


PROTO = """
syntax = "proto3";
message Order {
  string id = 1;
  string customer = 2;
  string item = 3;
  int64 quantity = 4;
  double price = 5;
  string currency = 6;
  bool paid = 7;
  int64 placed = 8;
  optional string note = 9;
  repeated string tags = 10;
}
"""
VALUE = Order(
    "o-1234567", "anna@example.com", "teapot", 3, 19.75, "EUR", True, 1_760_000_000_000, None, ["new", "gift"]
)


class Case(NamedTuple):
    """A serde: of which format, whose, and what its values are."""

    format: str
    whose: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    value: Any


def cases() -> list[Case]:
    """All serdes."""
    registry = MockRegistry()
    client, context = registry.client, value_of("orders")
    plain = msgspec.to_builtins(VALUE)
    made = [
        Case("json", "msgspec, dict", msgspec.json.Encoder().encode, msgspec.json.Decoder().decode, plain),
        Case("json", "standard library", lambda value: json.dumps(value).encode(), json.loads, plain),
        Case("json", "msgspec, Struct", msgspec.json.Encoder().encode, msgspec.json.Decoder(Order).decode, VALUE),
    ]

    def add(format: str, typed: Any, untyped: Any, value: Any, theirs: tuple[Any, Any]) -> None:
        for whose, serde, given in (("millstream, Struct", typed, VALUE), ("millstream", untyped, value)):
            usable = bound(serde, registry, f"{format}-{'typed' if serde is typed else 'plain'}")
            made.append(Case(format, whose, usable.serialize, usable.deserialize, given))
        write, read = theirs
        made.append(Case(format, "confluent-kafka", lambda v: write(v, context), lambda d: read(d, context), value))

    schema = avro(Order).schema.text  # type: ignore[attr-defined]
    add("avro", avro(Order), avro(schema), plain, (AvroSerializer(client, schema), AvroDeserializer(client)))
    text = json_schema(Order).schema.text  # type: ignore[attr-defined]
    theirs = JSONSerializer(text, client), JSONDeserializer(text, schema_registry_client=client)
    add("json_schema", json_schema(Order), json_schema(text), plain, theirs)
    messages = protobuf(PROTO, "Order", registry=None)
    message = messages.deserialize(messages.serialize(plain))
    cls: Any = type(message)
    both = ProtobufSerializer(cls, client), ProtobufDeserializer(cls, {}, client)
    add("protobuf", protobuf(Order), protobuf(cls), message, both)
    return made


def seconds(call: Callable[[Any], Any], argument: Any, records: int) -> float:
    """The time of one round."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    for _ in range(records):
        call(argument)
    spent = time.process_time() - began
    gc.enable()
    return spent


def main() -> None:
    """Measures all cases, and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    measured = cases()
    data = [case.encode(case.value) for case in measured]
    best: dict[tuple[int, str], float] = {}
    for _ in range(options.rounds):
        for index, case in enumerate(measured):
            for kind, call, argument in (("encode", case.encode, case.value), ("decode", case.decode, data[index])):
                spent = seconds(call, argument, options.records)
                best[index, kind] = min(best.get((index, kind), spent), spent)
    print(f"{'format':12} {'serde':20} {'bytes':>5} {'encode µs':>10} {'decode µs':>10}")
    rows = []
    for index, case in enumerate(measured):
        encode, decode = (best[index, kind] / options.records * 1e6 for kind in ("encode", "decode"))
        print(f"{case.format:12} {case.whose:20} {len(data[index]):5} {encode:10.2f} {decode:10.2f}")
        rows.append({"format": case.format, "serde": case.whose, "encode_us": encode, "decode_us": decode})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
