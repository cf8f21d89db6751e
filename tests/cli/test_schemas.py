from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.registry.http_server import Answer, Request, serving

pytestmark = pytest.mark.usefixtures("embedded_registry")

ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string"}
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*fields: Any, name: str = "order.avsc") -> str:
        text = json.dumps({"type": "record", "name": "Order", "fields": list(fields)})
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def orders(millstream: Run, write: Write) -> Run:
    """A registry with two versions of a subject."""
    assert millstream("schemas", "register", "orders-value", write(ID)).code == 0
    assert millstream("schemas", "register", "orders-value", write(ID, {**NOTE, "default": ""})).code == 0
    return millstream


def test_a_schema_is_registered_listed_shown_and_deleted(millstream: Run, write: Write) -> None:
    assert millstream("schemas", "list") == (0, "", "there are no schemas\n")
    made = millstream("schemas", "register", "orders-value", write(ID))
    assert made == (0, "1\n", "orders-value has version 1, with the id 1\n")
    again = millstream("schemas", "register", "orders-value", write(ID))
    assert again == (0, "1\n", "orders-value already has this schema: it is version 1, with the id 1\n")

    (listed,) = millstream("schemas", "list", "-o", "json").lines
    assert listed == {
        "subject": "orders-value", "type": "AVRO", "latest": 1, "versions": 1, "id": 1, "compatibility": "BACKWARD",
    }  # fmt: skip
    assert millstream("schemas", "list").out.split()[6:] == ["orders-value", "AVRO", "1", "1", "1", "BACKWARD"]

    shown = millstream("schemas", "show", "orders-value")
    assert json.loads(shown.out) == {"type": "record", "name": "Order", "fields": [ID]}
    assert shown.err == "id 1, subject orders-value, version 1, compatibility BACKWARD, type AVRO\n"
    (facts,) = millstream("schemas", "show", "--id", "1", "-o", "json").lines
    assert (facts["id"], facts["type"], facts["references"]) == (1, "AVRO", [])
    assert json.loads(facts["schema"]) == json.loads(shown.out)

    assert millstream("schemas", "delete", "orders-value", "--yes").err == "orders-value: version 1 is deleted\n"
    assert millstream("schemas", "list").err == "there are no schemas\n"
    assert millstream("schemas", "show", "--id", "1").code == 0
    gone = millstream("schemas", "delete", "orders-value", "--permanent", "-y", "-o", "json")
    assert gone.lines == [{"subject": "orders-value", "deleted": [1], "permanent": True}]
    assert millstream("schemas", "show", "--id", "1").code == 1


def test_versions_are_listed_and_shown(orders: Run) -> None:
    rows = orders("schemas", "list", "orders-value", "-o", "json").lines
    assert [(row["version"], row["id"]) for row in rows] == [(1, 1), (2, 2)]
    assert json.loads(orders("schemas", "show", "orders-value", "-v", "1").out)["fields"] == [ID]
    assert len(json.loads(orders("schemas", "show", "orders-value").out)["fields"]) == 2


def test_a_schema_is_read_from_stdin(millstream: Run) -> None:
    made = millstream("schemas", "register", "age-value", "-", "--type", "avro", "-o", "json", given='"int"')
    assert made.lines == [{"id": 1, "subject": "age-value", "version": 1, "created": True}]
    again = millstream("schemas", "register", "age-value", "-", "--type", "Avro", "-o", "json", given='"int"')
    assert again.lines[0]["created"] is False


def test_an_incompatible_schema_is_refused_with_the_field(orders: Run, write: Write) -> None:
    checked = orders("schemas", "check", "orders-value", write(ID, {**NOTE, "name": "city"}))
    reason = "city: the new schema requires this field without a default, version 2 lacks it"
    assert checked == (3, f"not compatible with orders-value (BACKWARD):\n  {reason}\n", "")
    (facts,) = orders("schemas", "check", "orders-value", write(ID, {**NOTE, "name": "city"}), "-o", "json").lines
    assert facts == {
        "subject": "orders-value", "compatible": False, "compatibility": "BACKWARD", "problems": [reason],
    }  # fmt: skip
    refused = orders("schemas", "register", "orders-value", write(ID, {**NOTE, "name": "city"}))
    assert refused.code == 3
    assert refused.err.splitlines()[:2] == [
        "error: the schema is not compatible with subject 'orders-value', whose level is BACKWARD:",
        f"    {reason}",
    ]
    forced = orders(
        "schemas", "register", "orders-value", write(ID, {**NOTE, "name": "city"}), "--compatibility", "none"
    )
    assert forced.code == 0
    assert forced.err.startswith("orders-value: the compatibility level is NONE\n")


def test_a_compatible_schema_is_said_to_be(orders: Run, write: Write) -> None:
    assert orders("schemas", "check", "orders-value", write(ID)).out == "compatible with orders-value (BACKWARD)\n"
    new = orders("schemas", "check", "new-value", write(ID))
    assert new.out == "compatible with new-value (BACKWARD): it has no versions yet\n"


def test_diff_shows_the_change_and_what_it_breaks(orders: Run, write: Write) -> None:
    shown = orders("schemas", "diff", "orders-value").out
    assert shown.startswith("--- version 1\n+++ version 2\n")
    assert '+      "name": "note",' in shown
    assert shown.endswith("\nversion 2 reads records of version 1: yes\nversion 1 reads records of version 2: yes\n")
    changed = write({"name": "id", "type": "string"}, name="new.avsc")
    (facts,) = orders("schemas", "diff", "orders-value", changed, "--from", "1", "-o", "json").lines
    assert facts["from"] == "version 1"
    assert facts["backward"] == [f"id: version 1 has long, which {changed} cannot read as string"]
    assert facts["forward"] == [f"id: {changed} has string, which version 1 cannot read as long"]
    same = orders("schemas", "diff", "orders-value", "--from", "2", "--to", "2")
    assert same == (0, "", "version 2 and version 2 are the same\n")


def test_a_schema_refers_to_others(millstream: Run, write: Write, tmp_path: Path) -> None:
    (tmp_path / "address.avsc").write_text('{"type":"fixed","name":"Address","size":4}', encoding="utf-8")
    millstream("schemas", "register", "address-value", str(tmp_path / "address.avsc"))
    customer = write({"name": "to", "type": "Address"}, name="customer.avsc")
    made = millstream("schemas", "register", "customer-value", customer, "-r", "Address=address-value:latest")
    assert made.code == 0
    assert "refers to Address: address-value version 1" in millstream("schemas", "show", "customer-value").err
    refused = millstream("schemas", "delete", "address-value", "--yes")
    assert refused.err == (
        "error: address-value version 1 is used by other schemas: customer-value version 1\nhint: delete those first\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["show"], 2, "there is nothing to show", "add a SUBJECT, or --id ID"),
        (["show", "x", "--id", "1", "-v", "2"], 2, "--id and --version exclude each other", ""),
        (["show", "ordres-value"], 1, "there is no subject 'ordres-value'", "did you mean 'orders-value'?"),
        (["show", "orders-value", "-v", "9"], 1, "subject 'orders-value' has no version 9", "it has: 1, 2"),
        (["show", "--id", "99"], 1, "there is no schema with the id 99", "written with another registry"),
        (["list", "nothing"], 1, "there is no subject 'nothing'", "it has: orders-value"),
        (["register", "x", "order.txt"], 2, "the type of order.txt is unknown", "add --type avro, --type json"),
        (["register", "x", "no.avsc"], 1, "no.avsc: No such file or directory", ""),
        (["register", "x", "-", "-t", "avr"], 2, "--type: there is no type 'avr'", "did you mean 'avro'?"),
        (["register", "x", "-", "-t", "avro"], 1, "the schema is not JSON", ""),
        (["register", "x", "-", "-t", "avro", "-r", "a"], 2, "--reference: 'a' is not of the form NAME=SUBJECT", ""),
        (["register", "x", "-", "-t", "avro", "--compatibility", "FUL"], 1, "no compatibility level 'FUL'", "'FULL'?"),
        (["diff", "orders-value", "--to", "1"], 1, "subject 'orders-value' has no version before 1", "another one"),
        (["diff", "orders-value", "x.avsc", "--to", "1"], 2, "--to and a FILE exclude each other", ""),
        (["delete", "orders-value"], 1, "this cannot be undone", "add --yes"),
        (["delete", "orders-value", "-v", "7", "-y"], 1, "has no version 7", "it has: 1, 2"),
        (["delete", "nothing", "-y"], 1, "there is no subject 'nothing'", "it has: orders-value"),
        (["list", "--registry", "localhost:8081"], 1, "'localhost:8081' is not an address", "write http://host:port"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_a_hint(
    arguments: list[str], code: int, message: str, hint: str, orders: Run
) -> None:
    result = orders("schemas", *arguments)
    assert (result.code, result.out) == (code, "")
    lines = result.err.splitlines()
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert hint in "".join(lines[1:])


# ----- with Confluent's API ------------------------------------------------------------------------------------------


@pytest.fixture
def url() -> Iterator[str]:
    def answer(request: Request) -> Answer:
        path = request.path.partition("?")[0]
        if request.headers.get("Authorization") != "Basic YTpi":
            return Answer({"error_code": 401, "message": "Unauthorized"}, 401)
        if path == "/subjects":
            return Answer(["orders-value"])
        if path.startswith("/config"):
            return Answer({"compatibilityLevel": "FULL"})
        if path == "/subjects/orders-value/versions":
            return Answer([1])
        if path.startswith("/subjects/orders-value/versions/"):
            return Answer({"id": 7, "version": 1, "subject": "orders-value", "schema": '"int"'})
        return Answer({"error_code": 40401, "message": "Subject not found"}, 404)

    with serving(answer) as server:
        yield server.url


def test_a_profile_names_a_registry(millstream: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = '"schema.registry.basic.auth.user.info" = "a:b"'
    (tmp_path / "millstream.toml").write_text(
        f'[profiles.test]\n"bootstrap.servers" = "localhost:1"\n"schema.registry.url" = "{url}"\n{user}\n'
    )
    monkeypatch.setenv("MILLSTREAM_CONFIG", str(tmp_path / "millstream.toml"))
    monkeypatch.setenv("MILLSTREAM_SCHEMA_REGISTRY_URL", "http://127.0.0.1:1")  # the command line takes precedence
    listed = millstream("schemas", "list", "--profile", "test", "-o", "json").lines
    assert [(row["subject"], row["id"], row["compatibility"]) for row in listed] == [("orders-value", 7, "FULL")]
    unknown = millstream("schemas", "show", "order-value", "--profile", "test")
    assert unknown.err.splitlines() == [
        f"error: the schema registry at {url} has no subject 'order-value': Subject not found",
        "hint: did you mean 'orders-value'?",
    ]


def test_refused_credentials_are_an_error(millstream: Run, url: str) -> None:
    refused = millstream("schemas", "list", "--registry", url)
    assert refused.code == 1
    assert refused.err.splitlines()[0] == (
        f"error: the schema registry at {url} does not know this user (its subjects): Unauthorized"
    )
    assert "schema.registry.basic.auth.user.info" in refused.err
