"""Rows of the tables of SQL queries, and the serdes of their stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import Serving
from tests.serve.events import EVENTS, begun, take
from tests.serve.servers import wait_until

from millstream.schemas.registries import ApplicationRegistry
from millstream.serde import SerdeContext
from millstream.serve.stores.sql_serdes import sql_serde
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats.codecs import FormatSerde
from millstream.sql.formats.internal import RowSerde, StateSerde
from millstream.sql.live.server import SqlServer
from millstream.sql.requests.properties import RequestSession
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, STRING, ArrayType, DecimalType, MapType, StructType

STATEMENTS = """
CREATE STREAM orders (id INT KEY, region STRING, city STRING, amount DECIMAL(6, 2))
  WITH (kafka_topic='orders', value_format='JSON', key_format='JSON', partitions=2);
CREATE TABLE by_city AS SELECT region, city, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region, city;
CREATE TABLE by_minute AS SELECT region, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY region;
CREATE TABLE by_region AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region;
"""
INSERTS = """
INSERT INTO orders (ROWTIME, id, region, city, amount) VALUES (1000, 1, 'north', 'Kiel', 1.50);
INSERT INTO orders (ROWTIME, id, region, city, amount) VALUES (2000, 2, 'north', 'Kiel', 2.25);
INSERT INTO orders (ROWTIME, id, region, city, amount) VALUES (61000, 3, 'south', 'Ulm', 4);
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_tables_of_sql_queries_are_read(data: Path, serving: Serving) -> None:
    with SqlServer({"state.dir": str(data)}) as sql, serving(data) as server:
        session = RequestSession({"auto.offset.reset": "earliest"})
        sql.handler.statements(STATEMENTS, session)
        sql.handler.statements(INSERTS, session)

        def paths() -> dict[str, str]:
            names = [each["id"] for each in server.viewer.get("/api/v1/applications").json()["applications"]]
            stores: dict[str, str] = {}
            for name in names:
                path = f"/api/v1/applications/{name}/stores"
                stores |= {
                    each["name"]: f"{path}/{each['name']}/rows" for each in server.viewer.get(path).json()["stores"]
                }
            return stores

        def rows(store: str, **query: Any) -> list[dict[str, Any]]:
            answer = server.viewer.get(paths()[store], **query)
            assert answer.status == 200, answer.body
            shown: list[dict[str, Any]] = answer.json()["rows"]
            return shown

        wait_until(lambda: {"BY_CITY", "BY_MINUTE", "BY_REGION"} <= paths().keys(), "the stores of the queries")
        wait_until(lambda: len(rows("BY_CITY")) == 2, "the rows of the cities")
        assert rows("BY_CITY", key='["north", "Kiel"]') == [
            {"key": ["north", "Kiel"], "value": {"N": 2, "TOTAL": "3.75"}, "timestamp": 2000}
        ]
        wait_until(lambda: len(rows("BY_MINUTE")) == 2, "the rows of the minutes")
        wait_until(lambda: len(rows("BY_REGION")) == 2, "the rows of the regions")
        assert [row["value"] for row in rows("BY_REGION", key="south")] == [{"N": 1}]
        assert [(row["key"], row["window"], row["value"]) for row in rows("BY_MINUTE")] == [
            ("north", {"start": 0, "end": 60_000}, {"N": 2}),
            ("south", {"start": 60_000, "end": 120_000}, {"N": 1}),
        ]
        application = paths()["BY_MINUTE"].split("/")[4]
        with server.viewer.events(EVENTS, channel=f"store:{application}/BY_MINUTE") as events:
            begun(events)
            more = "INSERT INTO orders (ROWTIME, id, region) VALUES (62000, 4, 'south');"
            sql.handler.statements(more, session)
            changed = take(events, 1)[0].data
        assert (changed["key"], changed["value"]) == ("south", {"N": 2})
        assert changed["window"] == {"start": 60_000, "end": 120_000}


COLUMNS = (
    Column("A B", INTEGER),
    Column("c; wrap=True", DecimalType(6, 2)),
    Column("S", StructType((("X", ArrayType(STRING)), ("Y", MapType(STRING, DOUBLE))))),
)


@pytest.mark.parametrize(
    "serde",
    [
        RowSerde((Column("A", INTEGER),), is_key=True),
        RowSerde(COLUMNS, is_key=False),
        RowSerde((), is_key=False),
        StateSerde((Column("SUM(A)", DOUBLE), Column("COUNT(*)", BIGINT))),
        FormatSerde(FormatInfo("KAFKA"), (Column("A", INTEGER),), is_key=True),
        FormatSerde(FormatInfo("JSON"), COLUMNS, is_key=False),
        FormatSerde(FormatInfo("JSON", wrap=False), (Column("A", INTEGER),), is_key=False),
        FormatSerde(FormatInfo("DELIMITED", (("delimiter", "|"),)), (Column("A", INTEGER),), is_key=False),
    ],
    ids=lambda serde: serde.name,
)
def test_the_serde_of_a_name_is_the_one_that_has_it(serde: Any) -> None:
    made = sql_serde(serde.name, SerdeContext(None, False), lambda: ApplicationRegistry("none"))
    assert made == serde


@pytest.mark.parametrize(
    "name", ["sql-", "sql-key<", "sql-key<`A` NOTHING>", "sql-nothing-key<`A` INTEGER>", "sql-row<(>"]
)
def test_another_name_has_no_serde(name: str) -> None:
    assert sql_serde(name, SerdeContext(None, False), lambda: ApplicationRegistry("none")) is None
