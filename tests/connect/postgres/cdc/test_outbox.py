"""The outbox pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.connect.postgres.cdc.host import Host
from tests.connect.postgres.server import Database

from millstream.connect.postgres.outbox import Outbox
from millstream.errors import ConfigError, ConnectorError

Hosts = Callable[..., Host]


@pytest.fixture
def captured(database: Database, host: Hosts) -> Host:
    database.execute(
        "create table outbox (id uuid primary key default gen_random_uuid(), aggregatetype text, aggregateid text, "
        "type text, payload jsonb, at timestamptz); create table t (id int primary key)"
    )
    capture = host()
    capture.run_to_end(database)
    database.execute(
        "insert into outbox (aggregatetype, aggregateid, type, payload, at) values "
        "('order', 'o1', 'created', '{\"n\": 1}', '1970-01-01 00:00:01+00'), ('bill', 'b1', 'sent', null, null)"
    )
    database.execute("insert into t values (1)")
    database.execute("update outbox set type = 'x' where aggregateid = 'b1'; delete from outbox")
    capture.run_to_end(database)
    return capture


def routed(capture: Host, **settings: Any) -> list[Any]:
    outbox = Outbox({"table": "public.outbox", **settings})
    return [event for record in capture.records if (event := outbox(record)) is not None]


def test_rows_become_events_in_the_topics_of_their_aggregates(captured: Host) -> None:
    order, bill, other = routed(captured)
    assert (order.topic, order.key, order.value) == ("outbox.event.order", "o1", '{"n": 1}')
    assert (bill.topic, bill.key, bill.value) == ("outbox.event.bill", "b1", None)
    assert [name for name, _ in order.headers] == ["id"]
    assert len(order.headers[0][1]) == 36
    assert order.value_schema.name == "io.debezium.data.Json"
    assert (other.topic, other.key) == ("p.public.t", {"id": 1})


def test_settings_choose_topic_value_and_headers(captured: Host) -> None:
    order, *_ = routed(
        captured,
        **{
            "route.topic.regex": "(?<kind>.).*",
            "route.topic.replacement": "${kind}-events",
            "table.expand.json.payload": True,
            "table.fields.additional.placement": "type:header:eventType,aggregateid:envelope",
            "table.field.event.timestamp": "at",
        },
    )
    assert (order.topic, order.timestamp) == ("o-events", 1000)
    assert order.value == {"payload": {"n": 1}, "aggregateid": "o1"}
    assert order.headers[1] == ("eventType", b"created")


def test_an_update_is_an_error_on_demand(captured: Host) -> None:
    with pytest.raises(ConnectorError, match="was updated"):
        routed(captured, **{"table.op.invalid.behavior": "fatal"})


def test_mistakes_are_named(captured: Host) -> None:
    with pytest.raises(ConnectorError, match="have no column 'key'"):
        routed(captured, **{"table.field.event.key": "key"})
    with pytest.raises(ConfigError, match=r"unknown setting 'route\.by\.fields'") as caught:
        Outbox({"route.by.fields": "x"})
    assert caught.value.hint == "did you mean 'route.by.field'?"
