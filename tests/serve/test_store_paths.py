"""The paths of the examples of Kafka Streams."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from tests.serve import shop
from tests.serve.conftest import Serving
from tests.serve.servers import Server
from tests.serve.store_application import HOSTILE


def test_a_key_has_its_value(shop_server: Server) -> None:
    answer = shop_server.viewer.get("/state/keyvalue/orders-of-shop/north")
    assert (answer.status, answer.json()) == (200, {"key": "north", "value": 3})
    assert int(answer.headers["x-millstream-position"]) > 0
    assert int(answer.headers["x-millstream-age-ms"]) >= 0
    assert shop_server.viewer.get("/state/keyvalue/prices/tea").json() == {"key": "tea", "value": 4}
    assert shop_server.viewer.get("/state/keyvalue/customers/1").json()["key"] == 1
    answer = shop_server.viewer.get("/state/keyvalue/orders-of-shop/nobody")
    assert (answer.status, answer.message) == (404, "the store has no row for this key")


def test_all_rows_and_ranges_are_lists(shop_server: Server) -> None:
    north, south = {"key": "north", "value": 3}, {"key": "south", "value": 1}
    assert shop_server.viewer.get("/state/keyvalues/orders-of-shop/all").json() == [north, south]
    assert shop_server.viewer.get("/state/keyvalues/orders-of-shop/range/a/o").json() == [north]
    assert shop_server.viewer.get("/state/keyvalues/orders-of-shop/range/o/z").json() == [south]
    assert shop_server.viewer.get("/state/keyvalues/orders-of-shop/range/z/a").json() == []


def test_a_list_continues_at_the_cursor_of_its_header(kinds_server: Server) -> None:
    client = kinds_server.viewer
    whole = client.get("/state/keyvalues/numbers/all").json()
    shown, cursor = [], None
    while True:
        answer = client.get("/state/keyvalues/numbers/all", limit=2, cursor=cursor)
        shown += answer.json()
        cursor = answer.headers.get("x-millstream-cursor")
        if cursor is None:
            break
    assert shown == whole
    assert len(shown) == 5


def test_the_windows_of_a_key_have_their_start_behind_it(kinds_server: Server, shop_server: Server) -> None:
    answer = kinds_server.viewer.get("/state/windowed/hops/a/0/60000")
    assert answer.json() == [{"key": "a@40000", "value": 2}, {"key": "a@60000", "value": 2}]
    assert kinds_server.viewer.get("/state/windowed/hops/a/40001/59999").json() == []
    assert shop_server.viewer.get("/state/windowed/visits/south/0/9000").json() == [{"key": "south@5000", "value": 1}]


@pytest.mark.parametrize("key", [key for key in HOSTILE if key], ids=lambda key: ascii(key)[:30])
def test_a_hostile_key_is_one_part_of_a_path(kinds_server: Server, key: str) -> None:
    answer = kinds_server.viewer.get(f"/state/keyvalue/texts/{quote(key, safe='')}")
    assert (answer.status, answer.json()) == (200, {"key": key, "value": f"of {key!r}"})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/state/keyvalue/minutes/north", 400),
        ("/state/keyvalues/visits/all", 400),
        ("/state/windowed/orders-of-shop/north/0/1", 400),
        ("/state/windowed/minutes/north/0/x", 422),
        ("/state/windowed/minutes/north/-1/5", 422),
        ("/state/keyvalue/customers/x", 400),
        ("/state/keyvalue/unknown/x", 404),
        ("/state/keyvalues/orders-of-shop/all?limit=0", 422),
        ("/state/keyvalues/orders-of-shop/all?cursor=x", 400),
        ("/state/keyvalue/orders-of-shop/north?application=bank", 404),
        ("/state/instances/unknown", 404),
    ],
)
def test_a_path_that_does_not_fit_is_refused(shop_server: Server, path: str, status: int) -> None:
    assert shop_server.viewer.get(path).status == status


def test_the_server_names_itself_as_the_instance_of_its_stores(shop_server: Server) -> None:
    (instance,) = shop_server.viewer.get("/state/instances").json()
    assert (instance["host"], instance["port"]) == ("127.0.0.1", shop_server.port)
    assert instance["storeNames"] == ["customers", "minutes", "orders-of-shop", "prices", "visits"]
    (instance,) = shop_server.viewer.get("/state/instances/minutes").json()
    assert instance["storeNames"] == ["minutes"]


def test_a_server_of_several_applications_needs_the_name_of_one(data: Path, serving: Serving) -> None:
    shop.run(data)
    shop.build(data, "second").run(mode="local", until_caught_up=True)
    with serving(data) as server:
        answer = server.viewer.get("/state/keyvalue/orders-of-shop/north")
        assert (answer.status, answer.message[-28:]) == (400, "applications are: second, shop"[-28:])
        answer = server.viewer.get("/state/keyvalue/orders-of-shop/north", application="second")
        assert answer.json() == {"key": "north", "value": 3}
    with serving(data, application="second") as server:
        assert server.viewer.get("/state/keyvalue/orders-of-shop/north").json()["value"] == 3
