"""`plan-diff` and `describe` of applications with schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Inside

from millstream.log import ProducerRecord, open_log

APPLICATION = """
from millstream import App, avro

KEY = {"type": "record", "name": "Id", "fields": [{"name": "id", "type": "string"}, *KEYS]}
VALUE = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *VALUES]}

app = App("shop", config={"status": "none", "execution.mode": "local"})
orders = app.stream("orders", key=str, value=str).map(
    lambda key, value: ({"id": key}, {"id": value, "amount": 1}), key=avro(KEY), value=avro(VALUE)
)
orders.group_by_key().reduce(lambda _old, new: new, store="latest")
"""


@pytest.mark.timeout(120)
def test_plan_diff_compares_schemas_and_registers_nothing(tmp_path: Path, inside: Inside) -> None:
    data = tmp_path / "data"
    millstream = inside(data)
    with open_log(data) as log:
        log.create_topic("orders", 1)
        log.produce("orders", [ProducerRecord(b"a", b"o1", 1)])

    def write(keys: str, values: str) -> str:
        path = tmp_path / "shop.py"
        path.write_text(f"KEYS, VALUES = {keys}, {values}\n{APPLICATION}", encoding="utf-8")
        return str(path)

    settings = ("--config", f"state.dir={data}")
    ran = millstream("run", write("[]", "[]"), "--until-caught-up", *settings)
    assert ran.code == 0, ran.err
    subjects = millstream("schemas", "list", "--output", "json").out

    new = '[{"name": "amount", "type": "int", "default": 0}]'
    compatible = millstream("plan-diff", write("[]", new), *settings)
    assert compatible.code == 0
    assert "the schema of its values changed; data from before is read with the new one" in compatible.out
    refused = millstream("plan-diff", write("[]", '[{"name": "amount", "type": "int"}]'), *settings)
    assert refused.code == 3
    assert "the schema of its values changed: amount:" in refused.out
    other = millstream("plan-diff", write('[{"name": "shop", "type": "string", "default": "-"}]', "[]"), *settings)
    assert other.code == 3
    assert "the schema of its keys (subject shop-latest-changelog-key) had id 1, and now has an id that" in other.out
    assert millstream("schemas", "list", "--output", "json").out == subjects

    described = json.loads(millstream("describe", write("[]", new), "--output", "json").out)
    [store] = [store for part in described["sub_topologies"] for store in part["stores"]]
    assert [field["name"] for field in store["value_schema"]["fields"]] == ["id", "amount"]
