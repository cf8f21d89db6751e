"""Personal fields: viewers do not see them, operators do."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest
from tests.serve.in_process import Senders, in_process

from millstream import App, contract, json_schema, rule, tumbling
from millstream.log import ProducerRecord, open_log
from millstream.schemas.python_types import Tags
from millstream.serde import time_windowed
from millstream.serve.access.roles import Principal, Role
from millstream.serve.operations.masking import Mask
from millstream.serve.operations.tagged_fields import HIDDEN, TaggedFields

SECRETS = ("anna@example.com", "Main Street", "Anna", "+49")
VIEWER, OPERATOR = Principal("v", Role.VIEWER), Principal("o", Role.OPERATOR)


class Address(NamedTuple):
    street: Annotated[str, Tags("pii")]
    city: str


class Person(msgspec.Struct):
    name: Annotated[str, Tags("PII")]
    address: Address
    others: list[Address] = []
    by_role: dict[str, Address] = {}


class Who(msgspec.Struct, frozen=True):
    name: Annotated[str, Tags("pii")]
    number: int


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Senders]:
    data = tmp_path_factory.mktemp("people") / "data"
    with open_log(data) as log:
        for topic in ("contacts", "words", "copies", "typed", "minutes"):
            log.create_topic(topic)
        values = [
            b'{"id": 1, "mail": "anna@example.com", "items": [{"sku": 1, "phone": "+49"}], "ok": true}',
            b'{"id": 2, "mail": "anna@example.com", "ok": false}',
        ]
        log.produce("contacts", [ProducerRecord(b"a", value, 1_000 + n) for n, value in enumerate(values)])
        log.produce("words", [ProducerRecord(b"a", b"x")])
    app = App("people", state_dir=str(data), status="none")
    good = contract(
        rule("is ok", lambda value: value["ok"]),
        on_violation="quarantine",
        tags={"mail": "pii", "items.phone": "personal", "id": "harmless"},
    )
    contacts = app.stream("contacts", key=str, value=dict, contract=good)
    contacts.to("copies", key=str, value=dict)
    contacts.group_by_key().reduce(lambda _old, new: new, store="latest")
    contacts.group_by(lambda value: str(value["id"]), key=str).reduce(lambda _old, new: new, store="by-id")
    address = Address("Main Street", "Bonn")
    person = Person("Anna", address, [address], {"home": address})
    app.stream("words", key=str, value=str).map_values(lambda _word: person, value=Person).to(
        "typed", key=str, value=json_schema(Person)
    )
    by_person = app.stream("words", key=str, value=str).group_by(lambda _word: Who("Anna", 1), key=json_schema(Who))
    minutes = by_person.windowed_by(tumbling("1m", grace="0s")).count(store="minutes")
    minutes.to_stream().to("minutes", key=time_windowed(json_schema(Who), 60_000))
    app.run(mode="local", until_caught_up=True)
    with in_process(data) as server:
        yield Senders(server)


TOPICS = [
    "contacts", "copies", "typed", "people-latest-changelog", "people-by-id-changelog", "contacts-quarantine",
]  # fmt: skip


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("newest", ["true", "false"])
def test_viewers_do_not_see_personal_fields_of_topics(people: Senders, topic: str, newest: str) -> None:
    path = f"/api/v1/topics/{topic}/records"
    shown, hidden = (people.get(path, role, newest=newest)["records"] for role in (Role.OPERATOR, Role.VIEWER))
    assert any(secret in str(shown) for secret in SECRETS)
    assert not [secret for secret in SECRETS if secret in str(hidden)]
    assert HIDDEN in str(hidden)
    assert [record["offset"] for record in hidden] == [record["offset"] for record in shown]


def test_viewers_do_not_see_keys_with_windows_that_have_personal_fields(people: Senders) -> None:
    path = "/api/v1/topics/minutes/records"
    (shown,), (hidden,) = (people.get(path, role)["records"] for role in (Role.OPERATOR, Role.VIEWER))
    assert b"Anna" in base64.b64decode(shown["key_base64"])
    assert hidden == {**shown, "key_base64": HIDDEN}


def test_other_fields_stay_as_they_are(people: Senders) -> None:
    (record, _other) = people.get("/api/v1/topics/contacts/records")["records"]
    assert record["value"] == {"id": 1, "mail": HIDDEN, "items": [{"sku": 1, "phone": HIDDEN}], "ok": True}
    (typed,) = people.get("/api/v1/topics/typed/records")["records"]
    assert typed["value"]["address"] in ({"street": HIDDEN, "city": "Bonn"}, [HIDDEN, HIDDEN])


def test_viewers_do_not_see_personal_fields_of_stores(people: Senders) -> None:
    masks = people.server.web.state.decoder.masks
    row = {"key": "a", "value": {"mail": "anna@example.com", "id": 1}, "timestamp": 5}
    for store in ("latest", "by-id"):
        assert masks.rows(VIEWER, "people", store, [row]) == [{**row, "value": {"mail": HIDDEN, "id": 1}}]
        assert masks.rows(OPERATOR, "people", store, [row]) == [row]
    assert masks.rows(VIEWER, "other", "latest", [row]) == [row]


def test_viewers_do_not_see_the_records_and_messages_of_dead_letters(people: Senders) -> None:
    for path in (
        "/api/v1/dead-letters/contacts-quarantine/records",
        "/api/v1/dead-letters/contacts-quarantine/records/0/0",
    ):
        shown, hidden = (people.get(path, role) for role in (Role.OPERATOR, Role.VIEWER))
        assert "anna@example.com" in str(shown)
        assert "anna@example.com" not in str(hidden)
        letter = hidden["records"][0] if "records" in hidden else hidden
        assert (letter["message"], letter["value"]["mail"], letter["value"]["ok"]) == (HIDDEN, HIDDEN, False)
    (topic,) = people.get("/api/v1/dead-letters")["topics"]
    assert topic["groups"][0]["message"] == HIDDEN


def test_a_topic_of_no_application_hides_fields_and_texts_with_the_names_of_personal_ones(people: Senders) -> None:
    with open_log(people.server.data) as log:
        log.create_topic("strange")
        headers = (("__streams.errors.message", b"anna@example.com"), ("other", b"x"))
        texts = [b'{"a": [{"MAIL": "anna@example.com"}]}', b'["no names"]', b"plain", b'{"mail": "anna@example.com"']
        log.produce("strange", [ProducerRecord(b"k", text, 1, headers) for text in texts])
    records = people.get("/api/v1/topics/strange/records")["records"]
    assert [record["value"] for record in records] == [HIDDEN, '["no names"]', "plain", HIDDEN]
    assert records[0]["headers"] == [["__streams.errors.message", HIDDEN], ["other", "x"]]
    assert "anna@example.com" in str(people.get("/api/v1/topics/strange/records", Role.OPERATOR))


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"lastName": "A", "n": 1}, {"lastName": HIDDEN, "n": 1}),
        ({"LAST_NAME": "A"}, {"LAST_NAME": HIDDEN}),
        ({"last_name": None}, {"last_name": None}),
        ({"last_name": {"deep": ["A"]}}, {"last_name": HIDDEN}),
        ([{"last_name": "A"}], [{"last_name": HIDDEN}]),
        ({"a": {"b": "A", "c": 1}}, {"a": {"b": HIDDEN, "c": 1}}),
        ({"a": [{"b": "A"}, {"c": 1}]}, {"a": [{"b": HIDDEN}, {"c": 1}]}),
        ({"m": {"x": {"s": "A"}, "y": {"s": "B", "t": 1}}}, {"m": {"x": {"s": HIDDEN}, "y": {"s": HIDDEN, "t": 1}}}),
        ({"a": "a text where fields were expected"}, {"a": HIDDEN}),
        (["A", 1], [HIDDEN, HIDDEN]),
        (None, None),
        ({}, {}),
    ],
)
def test_tagged_fields_are_hidden_in_any_form(value: Any, masked: Any) -> None:
    tags = [("last_name", ["pii"]), ("a.b", ["Sensitive", "x"]), ("m[].s", ["pii"]), ("free", ["harmless"])]
    mask = Mask(value=TaggedFields.of(tags))
    assert mask.record({"key": "k", "value": value}) == {"key": "k", "value": masked}
    assert mask.record({"key_base64": "k", "value_base64": "v"}) == {"key_base64": "k", "value_base64": HIDDEN}


def test_a_changed_topology_has_other_personal_fields(tmp_path: Path) -> None:
    data = tmp_path / "data"

    def run(tag: str) -> None:
        app = App("changes", state_dir=str(data), status="none")
        app.stream("words", key=str, value=dict, contract=contract(tags={tag: "pii"})).foreach(lambda _value: None)
        app.run(mode="local", until_caught_up=True)

    with open_log(data) as log:
        log.create_topic("words")
        log.produce("words", [ProducerRecord(b"a", b'{"a": 1, "b": 2}')])
    run("a")
    with in_process(data) as server:
        senders = Senders(server)
        assert senders.get("/api/v1/topics/words/records")["records"][0]["value"] == {"a": HIDDEN, "b": 2}
        run("b")
        assert senders.get("/api/v1/topics/words/records")["records"][0]["value"] == {"a": 1, "b": HIDDEN}
