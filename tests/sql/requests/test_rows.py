"""Values of rows in JSON and in Protobuf, and the properties of requests."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import wrappers_pb2
from tests.sql.requests.support import SPENDING, new_handler

from millstream.sql.requests.errors import RequestError
from millstream.sql.requests.json_values import json_text, json_value
from millstream.sql.requests.properties import RequestSession
from millstream.sql.requests.rows import ProtobufRows
from millstream.sql.testing.messages import message_text
from millstream.sql.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, INTEGER, "null"),
        (True, BOOLEAN, "true"),
        ("é\n", STRING, '"é\\n"'),
        (1.0, DOUBLE, "1.0"),
        (1e-5, DOUBLE, "1.0E-5"),
        (float("nan"), DOUBLE, '"NaN"'),
        (Decimal("1.50"), DecimalType(4, 2), "1.50"),
        (b"\x01\x02", BYTES, '"AQI="'),
        (18_262, DATE, '"2020-01-01"'),
        (3_661_000, TIME, '"01:01:01"'),
        (1_577_836_800_500, TIMESTAMP, '"2020-01-01T00:00:00.500"'),
        ([1, None], ArrayType(INTEGER), "[1,null]"),
        ({"a": b"\x01", None: None}, MapType(STRING, BYTES), '{"a":"AQ==","null":null}'),
        ({"A": 0, "B": [0.5]}, StructType((("A", DATE), ("B", ArrayType(DOUBLE)))), '{"A":"1970-01-01","B":[0.5]}'),
    ],
)
def test_value_in_json(value: Any, type_: SqlType, text: str) -> None:
    assert json_text(json_value(value, type_)) == text


def test_rows_as_protobuf_have_their_schema_in_the_header() -> None:
    answer = new_handler(SPENDING).query("SELECT buyer, n FROM spending WHERE buyer = 'ann';")
    rows = ProtobufRows(answer)
    assert rows.header()["header"]["protoSchema"] == (
        'syntax = "proto3";\n\nmessage ConnectDefault1 {\n  string BUYER = 1;\n  int64 N = 2;\n}\n'
    )
    (row,) = answer.poll()
    entity = rows.row_entity(row)
    data = base64.b64decode(entity["row"]["protobufBytes"])
    assert wrappers_pb2.StringValue.FromString(data).value == "ann"  # its only field has the same number
    assert message_text(entity, rows.schema) == {"row": 'BUYER: "ann"\nN: 2\n'}


# ----- properties ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.servers",
        "security.protocol",
        "sasl.jaas.config",
        "ssl.keystore.password",
        "ksql.streams.sasl.jaas.config",
        "ksql.streams.ssl.truststore.location",
        "ksql.schema.registry.url",
        "ksql.service.id",
        "execution.mode",
    ],
)
def test_request_cannot_set_properties_of_the_server(name: str) -> None:
    with pytest.raises(RequestError, match="Unknown property") as caught:
        RequestSession({name: "x"})
    assert caught.value.status == 400
    with pytest.raises(RequestError, match="Unknown property"):
        RequestSession().unset(name)


def test_property_has_the_same_name_with_and_without_prefix() -> None:
    session = RequestSession(
        {"ksql.streams.auto.offset.reset": "EARLIEST", "ksql.query.pull.table.scan.enabled": False}
    )
    assert session.properties == {"auto.offset.reset": "earliest", "ksql.query.pull.table.scan.enabled": "false"}
    session.unset("ksql.streams.auto.offset.reset")
    assert list(session.properties) == ["ksql.query.pull.table.scan.enabled"]


def test_property_has_a_value_of_its_kind() -> None:
    for name, value in (("auto.offset.reset", "never"), ("ksql.query.push.v2.enabled", "perhaps"),
                        ("commit.interval.ms", "soon")):  # fmt: skip
        with pytest.raises(RequestError, match=f"Invalid value {value}"):
            RequestSession({name: value})
