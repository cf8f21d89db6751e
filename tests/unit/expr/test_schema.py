from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union
from uuid import UUID

import msgspec
import pytest

from millstream.core.records import Windowed
from millstream.errors import ExpressionError
from millstream.expr import ANY, BIGINT, STRING, as_type, schema_of


@dataclass
class Address:
    street: str
    number: int | None


class Order(TypedDict):
    id: UUID
    address: Address
    note: NotRequired[str]


class Point(NamedTuple):
    x: float
    y: float


class Event(msgspec.Struct):
    at: datetime
    tags: list[str]


@dataclass
class Tree:
    value: int
    children: list[Tree]


@dataclass
class Unresolved:
    value: NoSuchType  # type: ignore[name-defined]  # noqa: F821


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Mixed(Enum):
    A = 1
    B = "b"


Cents = NewType("Cents", int)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (str, "STRING"),
        (int, "BIGINT"),
        (float, "DOUBLE"),
        (bool, "BOOLEAN"),
        (bytes, "BYTES"),
        (Decimal, "DECIMAL"),
        (datetime, "TIMESTAMP"),
        (date, "DATE"),
        (time, "TIME"),
        (UUID, "STRING"),
        (Colour, "STRING"),
        (Level, "BIGINT"),
        (Mixed, "ANY"),
        (Cents, "BIGINT"),
        (None, "NULL"),
        (Optional[int], "BIGINT"),  # noqa: UP045 - the old spelling must work too
        (Union[int, str], "ANY"),  # noqa: UP007
        (int | None, "BIGINT"),
        (Literal["a", "b"], "STRING"),
        (Annotated[int, "positive"], "BIGINT"),
        (list[int], "ARRAY<BIGINT>"),
        (list, "ARRAY<ANY>"),
        (tuple[int, ...], "ARRAY<BIGINT>"),
        (tuple[int, str], "ARRAY<ANY>"),
        (Sequence[str], "ARRAY<STRING>"),
        (dict[str, float], "MAP<STRING, DOUBLE>"),
        (Mapping[str, int], "MAP<STRING, BIGINT>"),
        (dict, "ANY"),
        (object, "ANY"),
        (Any, "ANY"),
        (timedelta, "ANY"),
        (Address, "STRUCT<street STRING, number BIGINT>"),
        (Order, "STRUCT<id STRING, address STRUCT<street STRING, number BIGINT>, note STRING>"),
        (Point, "STRUCT<x DOUBLE, y DOUBLE>"),
        (Event, "STRUCT<at TIMESTAMP, tags ARRAY<STRING>>"),
        (Tree, "STRUCT<value BIGINT, children ARRAY<ANY>>"),
        (Unresolved, "ANY"),
        (Windowed[str], "STRUCT<key STRING, start BIGINT, end BIGINT>"),
        (Windowed, "STRUCT<key ANY, start BIGINT, end BIGINT>"),
    ],
)
def test_the_schema_of_a_python_type(hint: Any, text: str) -> None:
    assert str(schema_of(hint)) == text


def test_a_type_can_be_written_in_three_ways() -> None:
    assert as_type("bigint") == as_type(int) == as_type(BIGINT) == BIGINT
    assert as_type(Any) == ANY
    assert as_type("varchar") == STRING


def test_a_python_type_without_a_type_of_expressions_is_refused() -> None:
    with pytest.raises(ExpressionError, match="is not a type of expressions"):
        as_type(object)


def test_schemas_need_no_msgspec() -> None:
    program = "import sys, millstream.expr as e; e.schema_of(list[int]); print('msgspec' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
