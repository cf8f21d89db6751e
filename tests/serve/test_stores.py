"""Rows of stores over HTTP: each kind of store, of key and of value, and each query."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.serve.client import Answer
from tests.serve.servers import Server
from tests.serve.store_application import HOSTILE, IDENTITY, NUMBERS

from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

SHOP = "/api/v1/applications/shop/stores"
KINDS = "/api/v1/applications/kinds/stores"


def ask(server: Server, store: str, **query: Any) -> Answer:
    """The rows of a store: of the application `kinds`, or of `shop` if the name begins with it."""
    application, _, name = store.rpartition("/")
    return server.viewer.get(f"/api/v1/applications/{application or 'kinds'}/stores/{name}/rows", **query)


def rows(server: Server, store: str, **query: Any) -> list[dict[str, Any]]:
    answer = ask(server, store, **{name.removesuffix("_"): value for name, value in query.items()})
    assert answer.status == 200, answer.body
    shown: list[dict[str, Any]] = answer.json()["rows"]
    return shown


def keys(server: Server, store: str, **query: Any) -> list[Any]:
    return [row["key"] for row in rows(server, store, **query)]


def test_the_stores_of_an_application_are_listed(shop_server: Server) -> None:
    stores = {store["name"]: store for store in shop_server.viewer.get(SHOP).json()["stores"]}
    assert {name: (store["kind"], store["rows"]) for name, store in stores.items()} == {
        "customers": ("key-value", 2),
        "minutes": ("window", 2),
        "orders-of-shop": ("key-value", 2),
        "prices": ("versioned", 2),
        "visits": ("session", 2),
    }
    one = shop_server.viewer.get(f"{SHOP}/minutes").json()
    assert one == stores["minutes"]
    assert (one["key"]["serde"], one["value"]["type"]) == ("string", "BIGINT")
    assert (one["window_size_ms"], one["node"]) == (60_000, "orders-count-2")
    assert one["bytes"] > 0
    assert one["sub_topology"] is not None


def test_a_key_value_store_is_read_by_key_range_and_prefix(shop_server: Server) -> None:
    north = {"key": "north", "value": 3, "timestamp": 70_000}
    south = {"key": "south", "value": 1, "timestamp": 5_000}
    assert rows(shop_server, "shop/orders-of-shop", key="north") == [north]
    assert rows(shop_server, "shop/orders-of-shop", key="west") == []
    assert rows(shop_server, "shop/orders-of-shop") == [north, south]
    assert rows(shop_server, "shop/orders-of-shop", reverse=True) == [south, north]
    assert rows(shop_server, "shop/orders-of-shop", from_="o") == [south]
    assert rows(shop_server, "shop/orders-of-shop", from_="north", to="north") == [north]
    assert rows(shop_server, "shop/orders-of-shop", to="o") == [north]
    assert rows(shop_server, "shop/orders-of-shop", prefix="so") == [south]


def test_a_window_store_is_read_by_key_and_by_the_start_of_windows(kinds_server: Server) -> None:
    def windows(**query: Any) -> list[tuple[str, int, int]]:
        return [(row["key"], row["window"]["start"], row["value"]) for row in rows(kinds_server, "hops", **query)]

    assert windows(key="a") == [("a", 40_000, 2), ("a", 60_000, 2), ("a", 80_000, 1)]
    assert windows(key="a", reverse=True) == [("a", 80_000, 1), ("a", 60_000, 2), ("a", 40_000, 2)]
    assert windows(key="a", time_from=60_000) == [("a", 60_000, 2), ("a", 80_000, 1)]
    assert windows(time_to=20_000) == [("b", 20_000, 1)]
    assert windows(key="a", time_from=40_001, time_to=59_999) == []
    assert len(windows()) == 6
    assert windows(from_="b") == [("b", 20_000, 1), ("b", 40_000, 1), ("b", 60_000, 1)]
    assert rows(kinds_server, "hops", key="a", limit=1)[0]["window"] == {"start": 40_000, "end": 100_000}


def test_a_session_store_is_read_by_key_and_time(shop_server: Server) -> None:
    session = {"key": "south", "value": 1, "timestamp": None, "window": {"start": 5_000, "end": 5_000}}
    assert rows(shop_server, "shop/visits", key="south") == [session]
    assert rows(shop_server, "shop/visits", key="south", time_from=5_000, time_to=5_000) == [session]
    assert rows(shop_server, "shop/visits", key="south", time_from=5_001) == []
    assert rows(shop_server, "shop/visits", key="south", time_to=4_999) == []
    assert keys(shop_server, "shop/visits") == ["south", "north"]


def test_a_versioned_store_shows_a_time_and_all_versions(kinds_server: Server) -> None:
    def versions(**query: Any) -> list[tuple[Any, ...]]:
        shown = rows(kinds_server, "rates", **query)
        assert all(row["timestamp"] == row["valid_from"] for row in shown)
        return [(row["key"], row["value"], row["valid_from"], row["valid_to"]) for row in shown]

    assert versions() == [("eur", 1.3, 3000, None)]
    assert versions(key="eur") == [("eur", 1.3, 3000, None)]
    assert versions(key="usd") == []
    assert versions(as_of=2000) == [("eur", 1.2, 2000, 3000), ("usd", 1.0, 1500, 2500)]
    assert versions(as_of=1999) == [("eur", 1.1, 1000, 2000), ("usd", 1.0, 1500, 2500)]
    assert versions(as_of=2000, reverse=True)[0][0] == "usd"
    assert versions(as_of=999) == []
    assert versions(key="eur", time_from=0) == [
        ("eur", 1.1, 1000, 2000),
        ("eur", 1.2, 2000, 3000),
        ("eur", 1.3, 3000, None),
    ]
    assert versions(key="eur", time_from=2000, time_to=2500) == [("eur", 1.2, 2000, 3000)]


def test_a_key_that_is_no_text_is_json(kinds_server: Server) -> None:
    for number in NUMBERS:
        assert rows(kinds_server, "numbers", key=number) == [{"key": number, "value": str(number), "timestamp": 1}]
    assert keys(kinds_server, "pairs", key='["a",1]') == [["a", 1]]
    assert keys(kinds_server, "pairs", key='["a", 1]') == [["a", 1]]
    assert keys(kinds_server, "places", key='{"country":"de","zone":1}') == [{"country": "de", "zone": 1}]
    assert keys(kinds_server, "identities", key=str(IDENTITY)) == [str(IDENTITY)]
    assert keys(kinds_server, "orders", key='{"country":"fr","zone":2}') == [{"country": "fr", "zone": 2}]
    assert rows(kinds_server, "blobs", key="AP8=") == [{"key_base64": "AP8=", "value_base64": "/w==", "timestamp": 1}]
    assert rows(kinds_server, "blobs", key_base64="AP8=") == rows(kinds_server, "blobs", key="AP8=")


def test_keys_are_ordered_by_their_bytes(kinds_server: Server) -> None:
    assert keys(kinds_server, "numbers") == [0, 1, 2**63 - 1, -(2**63), -1]
    assert keys(kinds_server, "numbers", from_=0, to=5) == [0, 1]


def test_the_prefix_of_a_composite_key_is_its_first_items(kinds_server: Server) -> None:
    assert keys(kinds_server, "pairs", prefix='["a"]') == [["a", 12], ["a", 1]]
    assert keys(kinds_server, "pairs", prefix='["a",1]') == []
    assert keys(kinds_server, "pairs", prefix='["ab"]') == [["ab", 1]]


def test_a_key_with_a_window_is_found_with_its_window(kinds_server: Server) -> None:
    row = {"key": "a", "window": {"start": 40_000, "end": 100_000}, "value": 2, "timestamp": 90_000}
    assert rows(kinds_server, "windowed", key='{"key":"a","start":40000,"end":100000}') == [row]
    assert rows(kinds_server, "windowed", key='{"key":"a","start":40000}') == [row]


def test_values_are_json_by_their_serde(kinds_server: Server) -> None:
    def value(store: str, key: str) -> Any:
        return rows(kinds_server, store, key=key)[0]["value"]

    assert value("orders", '{"country":"fr","zone":2}') == {"id": "o-1", "quantity": 3}
    assert value("checked", "k") == {"id": "o-2", "quantity": 4}
    assert value("pairs", '["a",1]') == {"n": 1, "big": 9007199254740993}
    assert value("places", '{"country":"de","zone":1}') == "NaN"
    assert value("identities", str(IDENTITY)) is True


@pytest.mark.parametrize("key", HOSTILE, ids=lambda key: ascii(key)[:30])
def test_a_hostile_key_is_a_key_like_any_other(kinds_server: Server, key: str) -> None:
    row = {"key": key, "value": f"of {key!r}", "timestamp": 1}
    assert rows(kinds_server, "texts", key=key) == [row]
    assert row in rows(kinds_server, "texts", prefix=key)
    answer = kinds_server.viewer.post(f"{KINDS}/texts/rows", {"keys": [key]})
    assert answer.json()["rows"] == [row]


def test_many_keys_are_answered_in_their_order(kinds_server: Server) -> None:
    answer = kinds_server.viewer.post(f"{KINDS}/numbers/rows", {"keys": [1, 7, -1, 1]}).json()
    one, minus = {"key": 1, "value": "1", "timestamp": 1}, {"key": -1, "value": "-1", "timestamp": 1}
    assert answer["rows"] == [one, {"key": 7, "value": None, "timestamp": None}, minus, one]
    assert answer["cursor"] is None
    assert answer["position"] > 0
    windows = kinds_server.viewer.post(f"{KINDS}/hops/rows", {"keys": ["b", "a"], "time_from": 60_000}).json()["rows"]
    assert [(row["key"], row["window"]["start"]) for row in windows] == [("b", 60_000), ("a", 60_000), ("a", 80_000)]
    versions = kinds_server.viewer.post(f"{KINDS}/rates/rows", {"keys": ["usd", "eur"], "as_of": 2000}).json()["rows"]
    assert [row["value"] for row in versions] == [1.0, 1.2]


@pytest.mark.parametrize(
    ("store", "query", "message"),
    [
        ("numbers", {"key": "x"}, "key: the key is not JSON, as the serde long needs it"),
        ("numbers", {"key": "1.5"}, "key: long serde: cannot write 1.5"),
        ("numbers", {"key": str(2**63)}, "key: long serde: cannot write 9223372036854775808"),
        ("numbers", {"key": "[" * 4_000}, "key: the key is not JSON"),
        ("numbers", {"key": "null"}, "key: a key is not null"),
        ("numbers", {"key": "NaN"}, "key: the key is not JSON"),
        ("blobs", {"key": "?"}, "key: it is not base64"),
        ("identities", {"key": "x"}, "key: it does not fit the serde uuid"),
        ("orders", {"key": '{"country":"fr"}'}, "key: zone: it is missing"),
        ("windowed", {"key": '"a"'}, "key: time-windowed<string> serde: cannot write"),
        ("numbers", {"prefix": "1"}, "prefix: keys of the serde long have none"),
        ("pairs", {"prefix": "{}"}, "prefix: of JSON keys, only arrays have a prefix"),
        ("numbers", {"key": "1", "from": "1"}, "give one of key, key_base64, prefix, or a range"),
        ("numbers", {"time_from": "1"}, "time_from, time_to: store 'numbers' is a key-value store, without windows"),
        ("hops", {"as_of": "1"}, "as_of: store 'hops' is a window store, not a versioned one"),
        ("rates", {"as_of": "1", "time_to": "2"}, "give as_of, or time_from and time_to"),
    ],
)
def test_a_query_that_does_not_fit_the_store_is_refused(
    kinds_server: Server, store: str, query: dict[str, str], message: str
) -> None:
    answer = ask(kinds_server, store, **query)
    assert (answer.status, answer.message[: len(message)]) == (400, message)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "x"},
        {"time_from": -1},
        {"as_of": 2**63},
        {"wait_ms": 10**6},
        {"at_least": -1},
        {"unknown": 1},
        {"limit": [1, 2]},
        {"reverse": "maybe"},
    ],
)
def test_an_invalid_parameter_is_refused_with_its_name(kinds_server: Server, query: dict[str, Any]) -> None:
    answer = ask(kinds_server, "numbers", **query)
    assert answer.status == 422
    problems = answer.json()["error"]["problems"]
    assert problems[0]["at"] in {"query", f"query.{next(iter(query))}"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"keys": []},
        {"keys": [1] * 1001},
        {"keys": "1"},
        {"keys": [1], "limit": 5},
        {"keys": [1], "at_least": "x"},
        [],
    ],
)
def test_an_invalid_request_for_many_keys_is_refused(kinds_server: Server, body: Any) -> None:
    assert kinds_server.viewer.post(f"{KINDS}/numbers/rows", body).status == 422


def test_a_key_that_does_not_fit_is_named_by_its_place(kinds_server: Server) -> None:
    answer = kinds_server.viewer.post(f"{KINDS}/numbers/rows", {"keys": [1, "x"]})
    assert (answer.status, answer.message.partition(":")[0]) == (400, "keys.1")


@pytest.mark.parametrize("name", ["..", "%2e%2e%2f", "a%00b", "x" * 290, "stores'--", "%F0%9F%98%80"])
def test_a_hostile_name_is_no_store_and_no_application(shop_server: Server, name: str) -> None:
    for path in (f"{SHOP}/{name}", f"{SHOP}/{name}/rows", f"/api/v1/applications/{name}/stores"):
        answer = shop_server.viewer.get(path)
        assert answer.status in {400, 404}, answer.body


def test_an_unknown_store_or_application_is_named_with_a_suggestion(shop_server: Server) -> None:
    answer = shop_server.viewer.get(f"{SHOP}/minuts/rows")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "unknown-store")
    assert answer.json()["error"]["hint"] == "did you mean 'minutes'?"
    answer = shop_server.viewer.get("/api/v1/applications/shp/stores/minutes/rows")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "unknown-application")


def test_a_token_reads_only_its_stores(shop_server: Server) -> None:
    text = Tokens(shop_server.data).create("only-minutes", Role.VIEWER, stores=("shop/minutes", "other/*"))
    client = shop_server.anonymous().using(token=text)
    assert [store["name"] for store in client.get(SHOP).json()["stores"]] == ["minutes"]
    assert client.get(f"{SHOP}/minutes/rows").status == 200
    for path in (f"{SHOP}/visits", f"{SHOP}/visits/rows", f"{SHOP}/unknown/rows", "/state/keyvalue/orders-of-shop/a"):
        assert client.get(path).status == 403, path
    assert client.post(f"{SHOP}/visits/rows", {"keys": ["north"]}).status == 403
    assert client.get("/state/instances").json()[0]["storeNames"] == ["minutes"]
    assert shop_server.anonymous().get(f"{SHOP}/minutes/rows").status == 401


def test_a_token_that_is_limited_to_stores_learns_no_other_names(shop_server: Server) -> None:
    text = Tokens(shop_server.data).create("only-some", Role.VIEWER, stores=("shop/minu*", "other/*"))
    client = shop_server.anonymous().using(token=text)
    for path in (f"{SHOP}/minus/rows", "/api/v1/applications/other/stores", "/api/v1/applications/bank/stores"):
        answer = client.get(path)
        assert (answer.status, answer.message) == (404, "there is no such store that the token may read"), path
        assert b"visits" not in answer.body


def test_the_parameters_of_rows_are_described(shop_server: Server) -> None:
    described = shop_server.viewer.get("/openapi.json").json()
    operation = described["paths"]["/api/v1/applications/{application}/stores/{store}/rows"]["get"]
    names = [parameter["name"] for parameter in operation["parameters"]]
    assert names[:2] == ["application", "store"]
    assert {"key", "prefix", "from", "to", "as_of", "cursor", "at_least", "wait_ms"} <= set(names)
    assert "503" in operation["responses"]
    assert json.dumps(described)
