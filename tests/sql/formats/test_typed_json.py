"""Rows that JSON is read to do not depend on the objects that the serde has read before."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from millstream.errors import DeserializationError
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats import FormatSerde
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructType,
)

COLUMNS = (
    Column("A", INTEGER),
    Column("B", BIGINT),
    Column("C", DOUBLE),
    Column("D", STRING),
    Column("E", BOOLEAN),
    Column("F", ArrayType(DOUBLE)),
    Column("G", MapType(STRING, INTEGER)),
    Column("H", StructType((("X", INTEGER), ("y", STRING)))),
    Column("I", DecimalType(6, 2)),
    Column("J", BYTES),
    Column("K", DATE),
    Column("L", TIMESTAMP),
    Column("lower", STRING),
)
ITEMS: tuple[Any, ...] = (
    None, 0, -5, 7, 2**31, 2**70, 1.5, 3.0, 1e400, "", "12", " 7", "text", "YQ==", True, False, [], [1, 2.5, None],
    ["x"], {}, {"a": 1}, {"a": None, "b": "3"}, {"x": 1, "Y": 2}, {"X": 1, "y": "z"}, 123.45, 123.456,
)  # fmt: skip
FITTING = {
    "A": (1, -7), "B": (2**40, 0), "C": (0.25, 3, 1e300), "D": ("", "text"), "E": (True, False),
    "F": ([], [1, 2.5, None]),
    "G": ({}, {"a": 1, "b": None}), "H": ({"X": 1, "y": "z"}, {"x": 3}), "I": (5, 123.45), "J": ("YQ==",), "K": (9,),
    "L": (10**12,), "lower": ("low",),
}  # fmt: skip


def serde(columns: tuple[Column, ...] = COLUMNS) -> FormatSerde:
    return FormatSerde(FormatInfo("JSON"), columns, is_key=False)


def read(of: FormatSerde, data: bytes) -> Any:
    try:
        return of.deserialize(data)
    except DeserializationError as error:
        return str(error)


def random_object(rng: random.Random) -> bytes:
    """Columns in any case, missing ones, others; values that fit, that must be converted, and that do not fit."""
    row: dict[str, Any] = {}
    for column in COLUMNS:
        if rng.random() < 0.15:
            continue
        name = column.name if rng.random() < 0.9 else rng.choice([column.name.lower(), column.name.upper(), "other"])
        row[name] = rng.choice(FITTING[column.name] if rng.random() < 0.97 else ITEMS)
    return json.dumps(row).encode()


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)  # 1 and 1.0 and True are different


@pytest.mark.parametrize("seed", range(3))
def test_an_object_is_read_as_by_a_serde_that_has_read_no_other(seed: int) -> None:
    rng = random.Random(seed)
    warm, rows, valid = serde(), [], 0
    for _ in range(300):
        data = random_object(rng)
        expected = read(serde(), data)
        assert same(read(warm, data), expected), data
        if not isinstance(expected, str):
            rows.append((data, expected))
            valid += 1
    assert 150 < valid < 300
    assert same(warm.deserialize_all([data for data, _row in rows]), [row for _data, row in rows])


def test_an_exact_name_wins_over_another_case_that_was_read_first() -> None:
    of = serde((Column("A", INTEGER), Column("B", INTEGER)))
    objects = [b'{"a":1,"b":2}', b'{"a":1,"A":3,"b":2}', b'{"A":4}', b'{"a":5,"b":6}', b'{"B":7,"b":8}']
    assert [of.deserialize(data) for data in objects] == [
        {"A": 1, "B": 2},
        {"A": 3, "B": 2},
        {"A": 4, "B": None},
        {"A": 5, "B": 6},
        {"A": None, "B": 7},
    ]


def test_names_that_no_python_object_can_have_are_read() -> None:
    of = serde((Column('a"b', INTEGER), Column("__init__", INTEGER), Column("a b", INTEGER)))
    data = rb'{"a\"b": 1, "__init__": 2, "a b": 3, "\u0000": 4}'
    assert [of.deserialize(data) for _ in range(3)] == [{'a"b': 1, "__init__": 2, "a b": 3}] * 3


def test_objects_with_ever_new_names_are_read() -> None:
    of = serde((Column("A", INTEGER),))
    assert [of.deserialize(b'{"A": %d, "n%d": 0}' % (n, n)) for n in range(300)] == [{"A": n} for n in range(300)]


@pytest.mark.parametrize("value", [None, 0.0, -0.0, 1.0, 0.001, 0.0009999, 9999999.5, 1e7, -1.5, -1e22, 5e-324])
def test_doubles_are_written_as_java_writes_them_whatever_the_row(value: float | None) -> None:
    columns = (Column("A", DOUBLE), Column("B", STRING))
    of, row = serde(columns), {"A": value, "B": "x"}
    alone = FormatSerde(FormatInfo("JSON"), (*columns, Column("C", DecimalType(3, 1))), is_key=False)
    with_decimal = alone.serialize({**row, "C": Decimal("1.5")})
    assert with_decimal is not None
    assert of.serialize(row) == with_decimal.replace(b',"C":1.5', b"")
    assert of.serialize_all([dict(reversed(row.items())), None]) == [of.serialize(row), None]
