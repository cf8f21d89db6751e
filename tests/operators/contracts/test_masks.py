"""Tags of fields, and masks of tagged fields on write."""

from __future__ import annotations

import hashlib
import hmac as stdlib_hmac
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from tests.operators.harness import refused, send

from millstream import App, TestDriver, avro, col, contract, hmac, json_schema, mask, protobuf
from millstream.config import Config
from millstream.errors import ConfigError, ContractViolationError
from millstream.schemas.python_types import Tags

KEY = "a-secret-of-32-characters-or-so!"
CONFIG = {"mask.key.people": KEY}
Pii = Annotated[str, Tags("pii")]


def digest(text: str) -> str:
    return stdlib_hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Address:
    street: Pii
    city: str


@dataclass
class Person:
    name: Pii
    age: int
    address: Address
    mails: Annotated[list[str], Tags("pii")] = field(default_factory=list)
    others: list[Address] = field(default_factory=list)
    by_role: dict[str, Address] = field(default_factory=dict)
    phone: Pii | None = None
    friend: Person | None = None

    def __post_init__(self) -> None:
        assert self.name != "***", "masks do not call constructors"


class StructPerson(msgspec.Struct, frozen=True):
    name: Pii
    age: int


class DictPerson(TypedDict):
    name: Pii
    age: int


class TuplePerson(NamedTuple):
    name: Pii
    age: int


class ModelPerson(pydantic.BaseModel):
    name: Pii
    age: int


def masked(value: Any, kind: Any, **options: Any) -> Any:
    app = App("test", config=CONFIG)
    rules = contract(mask("pii", with_=options.pop("with_", "***")), **options)
    app.stream("in", value=kind).to("out", contract=rules)
    return send(TestDriver(app), ("a", value, 0)).output("out").read().value


def test_nested_fields_lists_maps_and_recursive_types_are_masked() -> None:
    friend = Person("Ben", 4, Address("y", "b"))
    ann = Person(
        "Ann", 3, Address("x", "a"), ["1", "2"], [Address("z", "c")], {"home": Address("w", "d")}, None, friend
    )
    app = App("test")
    app.stream("in", value=Person).to("out", contract=contract(mask("pii", with_="***")))
    out = send(TestDriver(app), ("a", ann, 0)).output("out", value=dict).read().value
    hidden = {"street": "***", "city": "b"}
    nothing: dict[str, Any] = {"mails": [], "others": [], "by_role": {}, "phone": None, "friend": None}
    assert out == {
        "name": "***",
        "age": 3,
        "address": {**hidden, "city": "a"},
        "mails": ["***", "***"],
        "others": [{**hidden, "city": "c"}],
        "by_role": {"home": {**hidden, "city": "d"}},
        "phone": None,
        "friend": {"name": "***", "age": 4, "address": hidden, **nothing},
    }


def test_a_path_tags_one_use_of_a_class() -> None:
    app = App("test")
    rules = contract(mask("home", with_="***"), tags={"address.city": "home"})
    app.stream("in", value=Person).to("out", contract=rules)
    person = Person("Ann", 3, Address("x", "a"), others=[Address("y", "b")])
    out = send(TestDriver(app), ("a", person, 0)).output("out").read().value
    assert (out.address.city, out.others[0].city) == ("***", "b")


def test_values_of_all_kinds_of_types_are_masked() -> None:
    assert masked(StructPerson("Ann", 3), StructPerson) == StructPerson("***", 3)
    assert masked({"name": "Ann", "age": 3}, DictPerson) == {"name": "***", "age": 3}
    assert masked(TuplePerson("Ann", 3), TuplePerson) == TuplePerson("***", 3)
    assert masked(ModelPerson(name="Ann", age=3), ModelPerson) == ModelPerson(name="***", age=3)


def test_hmac_is_that_of_the_configured_key() -> None:
    assert masked(StructPerson("Ann", 3), StructPerson, with_=hmac("people")) == StructPerson(digest("Ann"), 3)
    value = {"name": "Ann", "ids": [1, None, {"x": "y"}], "mails": {"a": {"to": "b", "n": 1}}}
    tags = {"name": "pii", "ids": "pii", "mails.*.to": "pii"}
    assert masked(value, dict, with_=hmac("people"), tags=tags) == {
        "name": digest("Ann"),
        "ids": [digest("1"), None, {"x": digest("y")}],
        "mails": {"a": {"to": digest("b"), "n": 1}},
    }


def test_a_path_passes_through_lists_and_missing_fields_stay_missing() -> None:
    value = {"items": [{"sku": "x", "n": 1}, {"n": 2}], "other": None}
    tags = {"items.sku": "pii", "other": "pii", "absent": "pii"}
    assert masked(value, dict, tags=tags) == {"items": [{"sku": "***", "n": 1}, {"n": 2}], "other": None}


def test_masks_leave_the_value_as_it_is_for_other_operators_and_conditions() -> None:
    app = App("test")
    people = app.stream("in")
    rules = contract(col("name") == "Ann", mask("pii", with_="***"), tags={"name": "pii"})
    people.to("shared", contract=rules)
    people.to("own")
    driver = send(TestDriver(app), ("a", {"name": "Ann"}, 0))
    assert driver.output("shared").read().value == {"name": "***"}
    assert driver.output("own").read().value == {"name": "Ann"}


@pytest.mark.parametrize("format", [avro, json_schema])
def test_tags_of_types_are_in_their_schemas_and_masked(format: Any) -> None:
    serde = format(StructPerson)
    assert '"confluent:tags": ["pii"]' in serde.schema.text
    app = App("test")
    app.stream("in", value=serde).to("out", contract=contract(mask("pii", with_="***")))
    driver = send(TestDriver(app), ("a", StructPerson("Ann", 3), 0))
    assert driver.output("out").read().value == StructPerson("***", 3)


AVRO = {
    "type": "record",
    "name": "Person",
    "fields": [
        {"name": "name", "type": ["null", "string"], "confluent:tags": ["pii"]},
        {"name": "friends", "type": {"type": "array", "items": "Person"}, "default": []},
    ],
}
JSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "confluent:tags": ["pii"]},
        "friends": {"type": "array", "items": {"$ref": "#"}},
    },
}


@pytest.mark.parametrize("serde", [avro(AVRO), json_schema(JSON)], ids=["avro", "json"])
def test_tags_of_schemas_are_masked(serde: Any) -> None:
    app = App("test", config=CONFIG)
    app.stream("in", value=serde).to("out", contract=contract(mask("pii", with_=hmac("people"))))
    value = {"name": "Ann", "friends": [{"name": "Ben", "friends": []}]}
    driver = send(TestDriver(app), ("a", value, 0))
    assert driver.output("out").read().value == {
        "name": digest("Ann"),
        "friends": [{"name": digest("Ben"), "friends": []}],
    }


def test_describe_shows_contracts_and_tags() -> None:
    app = App("test", config=CONFIG)
    people = app.stream("in", value=StructPerson, contract=contract(col("age") > 0, on_violation="drop"))
    people.to("out", contract=contract(mask("pii", with_=hmac("people"))))
    assert app.describe().endswith(
        "Contracts:\n"
        "  in-source: contract in (on violation: drop)\n"
        "    rule: age > 0\n"
        "    field name: pii\n"
        "  out-sink: contract out (on violation: fail)\n"
        "    mask: pii with HMAC, key people\n"
        "    field name: pii\n"
    )
    (part,) = json.loads(app.describe("json"))["sub_topologies"]
    source, sink = part["nodes"]
    assert source["tags"] == sink["tags"] == {"name": ["pii"]}
    assert source["contract"]["rules"] == [{"name": "age > 0", "on_violation": "drop"}]
    assert KEY not in app.describe() + app.describe("json")


def test_the_error_of_a_violation_does_not_show_tagged_fields() -> None:
    app = App("test")
    app.stream("in", value=StructPerson, contract=contract(col("age") > 0)).to("out")
    with pytest.raises(ContractViolationError) as raised:
        send(TestDriver(app), ("a", StructPerson("Ann", -3), 0))
    assert "StructPerson(name='…', age=-3)" in raised.value.message
    assert "Ann" not in raised.value.message


@pytest.mark.parametrize(
    ("config", "message"),
    [({}, "the key is missing: mask.key.people is not set"), ({"mask.key.people": "tiny"}, "less than 16 characters")],
)
def test_an_application_without_the_key_does_not_start(config: dict[str, str], message: str) -> None:
    app = App("test", config=config)
    app.stream("in", value=StructPerson).to("out", contract=contract(mask("pii", with_=hmac("people"))))
    for start in (lambda: TestDriver(app), lambda: app.start(mode="local")):
        with pytest.raises(ConfigError) as raised:
            start()
        assert message in raised.value.message
        assert "tiny" not in str(raised.value)


def test_the_key_is_a_secret() -> None:
    assert KEY not in repr(Config(CONFIG).explicit)


class Colour(Enum):
    RED = "red"


class Odd(msgspec.Struct):
    number: Annotated[int, Tags("number")]
    colour: Annotated[Colour, Tags("colour")]
    word: Annotated[Literal["a", "b"], Tags("word")]
    text: Annotated[str, Tags("text")]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (mask("pii", with_="***"), "no field has this tag"),
        (mask("number", with_=hmac("people")), "the field number is neither text nor bytes"),
        (mask("colour", with_=hmac("people")), "the field colour is neither text nor bytes"),
        (mask("word", with_=hmac("people")), "the field word is neither text nor bytes"),
        (mask("text", with_=0), "the field text is of type str, and the constant is 0"),
    ],
)
def test_masks_that_do_not_fit_are_refused(rule: Any, message: str) -> None:
    app = App("test")
    error = refused(lambda: app.stream("in", value=Odd).to("out", contract=contract(rule)), hint=False)
    assert message in error.message


def test_a_tag_of_an_unknown_field_is_refused() -> None:
    app = App("test")
    rules = contract(tags={"txt": "pii"})
    error = refused(lambda: app.stream("in", value=Odd, contract=rules))
    assert error.hint == "did you mean 'text'?"


def test_masks_of_messages_are_refused_and_those_of_types_in_protobuf_are_not() -> None:
    app = App("test")
    rules = contract(mask("pii", with_="***"), tags={"name": "pii"})
    text = 'syntax = "proto3"; message Person { string name = 1; }'
    assert (
        "cannot be masked"
        in refused(lambda: app.stream("other").to("x", value=protobuf(text, "Person"), contract=rules)).message
    )
    app.stream("in", value=protobuf(StructPerson)).to("out", contract=rules)
    driver = send(TestDriver(app), ("a", StructPerson("Ann", 3), 0))
    assert driver.output("out").read().value == StructPerson("***", 3)
