"""Commands that write and read records with a registry that has Confluent's API."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.cli.conftest import Run, run_in

from millstream.dev.registry import RegistryServer
from millstream.log import ProducerRecord, open_log

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture
def millstream(tmp_path: Path) -> Run:
    return run_in(tmp_path / "data")


def test_the_program_and_confluents_serdes_read_each_others_records(
    millstream: Run, apicurio_server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    text = json.dumps({"type": "record", "name": "Bill", "fields": [{"name": "id", "type": "long"}]})
    (tmp_path / "bill.avsc").write_text(text, encoding="utf-8")
    registry = ("--registry", apicurio_server.url)
    millstream("topics", "create", "bills")
    options = ("--value", "avro", "--schema", "bill.avsc", *registry)
    written = millstream("produce", "bills", *options, given='{"id": 7}\n')
    assert written.code == 0, written.err
    (row,) = millstream("consume", "bills", "--from-beginning", "-o", "json", *registry).lines
    assert row["value"] == {"id": 7}

    context = SerializationContext("bills", MessageField.VALUE)
    data = base64.b64decode(row["value_base64"])
    with SchemaRegistryClient({"url": apicurio_server.url}) as client:
        assert AvroDeserializer(client)(data, context) == {"id": 7}
        theirs = AvroSerializer(client, text)({"id": 8}, context)
    assert isinstance(theirs, bytes)
    assert theirs[:5] == data[:5]
    with open_log(tmp_path / "data") as log:
        log.produce("bills", [ProducerRecord(None, theirs)])
    assert millstream("consume", "bills", "--from-beginning", *registry).out == 'null\t{"id": 7}\nnull\t{"id": 8}\n'
