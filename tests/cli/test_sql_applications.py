"""Commands of applications whose topology is a SQL script."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from millstream.log import ProducerRecord, open_log

ORDERS = "CREATE STREAM orders (customer STRING KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');"
TOTALS = "CREATE TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;"


@pytest.fixture
def script(tmp_path: Path, data: Path, process: Run) -> Path:
    """A script that has run as an application."""
    path = tmp_path / "shop.sql"
    path.write_text(f"{ORDERS}\n{TOTALS}\n")
    with open_log(data) as log:
        log.create_topic("orders", 2)
        log.produce("orders", [ProducerRecord(b"ann", b'{"amount": 4}')])
    ran = process("run", "shop.sql", "--local", "--until-caught-up")
    assert ran.code == 0, ran.err
    return path


def test_a_compatible_change_of_a_script_is_named_and_goes_on(script: Path, process: Run, millstream: Run) -> None:
    changed = TOTALS.replace("FROM orders", "FROM orders WHERE amount > 1").replace("AS total", "AS total, 1 AS one")
    script.write_text(f"{ORDERS}\n{changed}\nCREATE STREAM large AS SELECT * FROM orders WHERE amount > 100;\n")

    compared = millstream("plan-diff", str(script))

    assert compared.code == 0
    assert compared.out.startswith("Compatible: ")
    assert "SQL\n  TABLE TOTALS: changed (columns, query)\n  STREAM LARGE: added\n" in compared.out
    (difference,) = millstream("plan-diff", str(script), "-o", "json").lines
    assert [(part["name"], part["status"]) for part in difference["definitions"]] == [
        ("STREAM ORDERS", "kept"),
        ("TABLE TOTALS", "changed"),
        ("STREAM LARGE", "added"),
    ]
    millstream("produce", "orders", "--key-separator", "=", given='ann={"amount": 1}\nann={"amount": 5}\n')
    ran = process("run", "shop.sql", "--local", "--until-caught-up")
    assert ran.code == 0, ran.err
    values = [line["value"] for line in millstream("consume", "TOTALS", "--from-beginning", "-o", "json").lines]
    assert values == ['{"TOTAL":4}', '{"TOTAL":9,"ONE":1}']


def test_an_incompatible_change_of_a_script_is_refused_and_changes_nothing(script: Path, process: Run) -> None:
    before = script.read_text()
    script.write_text(f"{ORDERS}\n{TOTALS.replace('SUM', 'MAX')}\n")

    compared = process("plan-diff", "shop.sql")

    assert compared.code == 3
    assert compared.out.startswith("Not compatible: ")
    assert "SQL\n  TABLE TOTALS: changed (query)\n" in compared.out
    refused = process("run", "shop.sql", "--local", "--until-caught-up")
    assert refused.code == 3
    assert "application 'shop' cannot use its existing state" in refused.err
    assert "TOTALS-aggregate-store" in refused.err
    script.write_text(before)
    assert process("run", "shop.sql", "--local", "--until-caught-up").code == 0
