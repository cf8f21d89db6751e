"""Avro's bytes are those of confluent-kafka's serializer, and each reads what the other one writes."""

from __future__ import annotations

import itertools
import json
from typing import Any

from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from hypothesis import HealthCheck, given, settings, strategies as st

from millstream import avro
from tests.schemas.avro_schemas import SCALARS, schemas
from tests.schemas.confluent import MockRegistry, bound, value_of

registry = MockRegistry()  # it takes long to make one
TOPICS = itertools.count()


@given(st.data())
@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
def test_both_write_the_same_bytes_and_read_each_others(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    text = json.dumps(schema)
    topic = f"topic-{next(TOPICS)}"
    theirs, ours = AvroSerializer(registry.client, text), bound(avro(text), registry, topic)
    for _ in range(3):
        value = data.draw(values)
        written = ours.serialize(value)
        assert written == theirs(value, value_of(topic))
        if len(written) > 5:  # theirs does not read a value without bytes
            assert ours.deserialize(written) == AvroDeserializer(registry.client)(written, value_of())
        assert bound(avro(), registry).deserialize(written) == ours.deserialize(written)
        bare: Any = avro(text, registry=None)
        assert bare.serialize(value) == written[5:]
        assert bare.deserialize(written[5:]) == ours.deserialize(written)


@given(st.data())
def test_a_schema_may_be_a_scalar(data: st.DataObject) -> None:
    schema, values = data.draw(st.sampled_from(SCALARS[1:-1]))
    topic = f"topic-{next(TOPICS)}"
    # Their serializer changes the text of a primitive type in this way, and their mock compares texts.
    text = json.dumps({"type": schema} if isinstance(schema, str) else schema)
    value = data.draw(values)
    written = bound(avro(text), registry, topic).serialize(value)
    assert written == AvroSerializer(registry.client, text)(value, value_of(topic))
    assert bound(avro(), registry, topic).deserialize(written) == value


def test_a_schema_may_refer_to_others() -> None:
    country = {"type": "enum", "name": "com.acme.Country", "symbols": ["DE", "FR"]}
    address = {
        "type": "record",
        "name": "com.acme.Address",
        "fields": [{"name": "city", "type": "string"}, {"name": "country", "type": "com.acme.Country"}],
    }
    order = {
        "type": "record",
        "name": "com.acme.Order",
        "fields": [{"name": "to", "type": "com.acme.Address"}, {"name": "from", "type": "com.acme.Address"}],
    }
    bound(avro(country), registry, "countries").serialize("DE")
    addresses = avro(address, references=[("com.acme.Country", "countries-value", 1)])
    place = {"city": "Ulm", "country": "DE"}
    written = bound(addresses, registry, "addresses").serialize(place)
    assert bound(avro(), registry, "addresses").deserialize(written) == place
    orders = bound(avro(order, references=[("com.acme.Address", "addresses-value", 1)]), registry)
    value = {"to": place, "from": {"city": "Metz", "country": "FR"}}
    written = orders.serialize(value)
    assert bound(avro(), registry).deserialize(written) == value
    assert orders.deserialize(written) == value
    assert AvroDeserializer(registry.client)(written, value_of()) == value
