"""Changes of a Protobuf schema: which of the two can read the records of the other."""

from __future__ import annotations

from tests.registry.avro_cases import Case


def proto(*lines: str, syntax: str = "proto3") -> str:
    return "\n".join([f'syntax = "{syntax}";', *lines])


def message(*fields: str) -> str:
    return proto("message Order {", *(f"  {field}" for field in fields), "}")


def enumerated(values: str) -> str:
    return proto("message M { E e = 1; }", f"enum E {{ {values} }}")


A = "int64 a = 1;"
N = "message N { int32 x = 1; }"

CASES = [
    Case("a-field-is-added", message(A), message(A, "string b = 2;")),
    Case("a-field-is-renamed", message(A), message("int64 z = 1;")),
    Case("int64-becomes-uint32", message(A), message("uint32 a = 1;")),
    Case("int64-becomes-bool", message(A), message("bool a = 1;")),
    Case("int64-becomes-string", message(A), message("string a = 1;"), "Order.a", "Order.a"),
    Case("int64-becomes-sint64", message(A), message("sint64 a = 1;"), "Order.a", "Order.a"),
    Case("string-becomes-bytes", message("string a = 1;"), message("bytes a = 1;")),
    Case("fixed32-becomes-fixed64", message("fixed32 a = 1;"), message("fixed64 a = 1;"), "Order.a", "Order.a"),
    Case("a-number-becomes-repeated", message(A), message("repeated int64 a = 1;"), "Order.a", "Order.a"),
    Case("a-string-becomes-repeated", message("string a = 1;"), message("repeated string a = 1;")),
    Case("a-field-becomes-optional", message(A), message("optional int64 a = 1;")),
    Case("a-message-is-added", message(A), message(A) + "\nmessage Other { int32 x = 1; }", None, "Other"),
    Case("the-package-changes", proto("package a;", "message M { N n = 1; } message N { int32 x = 1; }"),
         proto("package b;", "message M { N n = 1; } message N { int32 x = 1; }")),
    Case("the-message-of-a-field-changes",
         proto("message M { N n = 1; } message N {} message O {}"),
         proto("message M { O n = 1; } message N {} message O {}"), "M.n", "M.n"),
    Case("a-field-of-a-nested-message-changes",
         proto("message M { message N { int32 x = 1; } N n = 1; }"),
         proto("message M { message N { string x = 1; } N n = 1; }"), "M.N.x", "M.N.x"),
    Case("a-field-joins-a-new-oneof", message(A, "int32 b = 2;"), message("oneof o { int64 a = 1; }", "int32 b = 2;")),
    Case("several-fields-join-a-new-oneof",
         message(A, "int32 b = 2;"), message("oneof o { int64 a = 1; int32 b = 2; }"), "Order.o"),
    Case("a-field-joins-an-existing-oneof",
         message(A, "oneof o { int32 b = 2; }"), message("oneof o { int64 a = 1; int32 b = 2; }"), "Order.a"),
    Case("a-field-leaves-its-oneof-by-removal",
         message("oneof o { int64 a = 1; int32 b = 2; }"), message("oneof o { int64 a = 1; }"), "Order.b"),
    Case("the-value-of-a-map-changes",
         message("map<string, int32> m = 1;"), message("map<string, string> m = 1;"), "Order.m", "Order.m"),
    Case("a-map-is-renamed", message("map<string, int32> m = 1;"), message("map<string, int32> n = 1;")),
    Case("an-enum-becomes-a-number",
         proto("message M { E e = 1; } enum E { ZERO = 0; }"), proto("message M { int32 e = 1; }")),
    Case("a-required-field-is-added",
         proto("message M { optional int32 a = 1; }", syntax="proto2"),
         proto("message M { optional int32 a = 1; required int32 b = 2; }", syntax="proto2"), "M.b", "M.b"),
    Case("a-value-of-an-enum-is-added", enumerated("ZERO = 0;"), enumerated("ZERO = 0; ONE = 1;")),
    Case("a-value-of-an-enum-is-renamed", enumerated("ZERO = 0; ONE = 1;"), enumerated("ZERO = 0; UNO = 1;")),
    Case("an-enum-is-added", message(A), message(A) + "\nenum E { ZERO = 0; }"),
    Case("an-enum-becomes-a-string", enumerated("ZERO = 0;"), proto("message M { string e = 1; }"), "M.e", "M.e"),
    Case("float-becomes-double", message("float a = 1;"), message("double a = 1;"), "Order.a", "Order.a"),
    Case("a-field-has-another-number", message(A), message("int64 a = 2;")),
    Case("a-number-is-reserved", message(A, "string b = 2;"), message(A, "reserved 2;")),
    Case("messages-are-reordered", proto("message A { int32 x = 1; }", N), proto(N, "message A { int32 x = 1; }")),
    Case("a-message-becomes-bytes",
         proto("message M { N n = 1; }", N), proto("message M { bytes n = 1; }", N), "M.n", "M.n"),
    Case("a-message-becomes-repeated", proto("message M { N n = 1; }", N), proto("message M { repeated N n = 1; }", N)),
    Case("a-string-becomes-a-map",
         message("string m = 1;"), message("map<string, int32> m = 1;"), "Order.m", "Order.m"),
    Case("the-key-of-a-map-has-the-same-encoding",
         message("map<int32, int32> m = 1;"), message("map<int64, int32> m = 1;")),
    Case("a-required-field-becomes-optional",
         proto("message M { required int32 a = 1; }", syntax="proto2"),
         proto("message M { optional int32 a = 1; }", syntax="proto2"), "M.a", "M.a"),
    Case("a-oneof-is-added", message(A), message(A, "oneof o { string b = 2; string c = 3; }")),
    Case("a-field-is-added-to-a-oneof",
         message("oneof o { string b = 2; }"), message("oneof o { string b = 2; string c = 3; }"), None, "Order.c"),
    Case("a-oneof-is-renamed",
         message("oneof o { string b = 2; string c = 3; }"), message("oneof q { string b = 2; string c = 3; }")),
    Case("a-oneof-becomes-fields",
         message("oneof o { string b = 2; string c = 3; }"), message("string b = 2;", "string c = 3;"),
         None, "Order.o"),
    Case("a-field-leaves-its-oneof",
         message("oneof o { string b = 2; string c = 3; }"), message("oneof o { string c = 3; }", "string b = 2;"),
         None, "Order.b"),
    Case("a-field-joins-a-oneof-that-is-renamed",
         message(A, "oneof o { int32 b = 2; }"), message("oneof q { int64 a = 1; int32 b = 2; }"), "Order.a"),
    Case("oneofs-are-merged",
         message("oneof o { int32 a = 1; }", "oneof p { int32 b = 2; }"),
         message("oneof q { int32 a = 1; int32 b = 2; }"), "Order.q"),
]  # fmt: skip
