"""Pages of rows: cursors, their validation, and pages of a store that changes in between."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from tests.serve import shop
from tests.serve.client import Client
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server, wait_until

from millstream.log import ProducerRecord

KINDS = "/api/v1/applications/kinds/stores"
CUSTOMERS = "/api/v1/applications/shop/stores/customers/rows"


def pages(client: Client, path: str, **query: Any) -> list[list[dict[str, Any]]]:
    """All pages of a query."""
    shown = []
    cursor = None
    while True:
        answer = client.get(path, cursor=cursor, **query)
        assert answer.status == 200, answer.body
        content = answer.json()
        shown.append(content["rows"])
        cursor = content["cursor"]
        if cursor is None:
            return shown


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize(
    ("store", "query"),
    [
        ("texts", {}),
        ("texts", {"prefix": "<"}),
        ("numbers", {"from": 0, "to": -1}),
        ("hops", {}),
        ("hops", {"key": "a"}),
        ("hops", {"from": "b", "time_to": 50_000}),
        ("rates", {"as_of": 2000}),
        ("rates", {"time_from": 0}),
        ("windowed", {}),
    ],
)
def test_the_pages_of_a_query_have_each_row_once(
    kinds_server: Server, store: str, query: dict[str, Any], limit: int, reverse: bool
) -> None:
    path = f"{KINDS}/{store}/rows"
    whole = kinds_server.viewer.get(path, reverse=reverse, limit=1000, **query).json()["rows"]
    shown = pages(kinds_server.viewer, path, reverse=reverse, limit=limit, **query)
    assert [row for page in shown for row in page] == whole
    assert all(len(page) == limit for page in shown[:-1])


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "AAAA", ".AAAA", "-_-", "A" * 15_999, "lcQIMSPDbizqpnUAxAgA"],
    ids=lambda cursor: ascii(cursor[:8]),
)
def test_a_cursor_that_is_none_is_refused(kinds_server: Server, cursor: str) -> None:
    answer = kinds_server.viewer.get(f"{KINDS}/texts/rows", cursor=cursor)
    message = "the cursor is not one that this route has returned, or it has expired"
    assert (answer.status, answer.message) == (400, message)


@pytest.mark.parametrize("cursor", ["=", "é", "\x00", "A" * 16_001])
def test_a_cursor_of_other_characters_is_no_parameter(kinds_server: Server, cursor: str) -> None:
    assert kinds_server.viewer.get(f"{KINDS}/texts/rows", cursor=cursor).status == 422


def test_a_mutated_cursor_is_refused_or_continues_in_the_same_store(kinds_server: Server) -> None:
    path = f"{KINDS}/texts/rows"
    cursor = kinds_server.viewer.get(path, limit=3).json()["cursor"]
    whole = kinds_server.viewer.get(path).json()["rows"]
    chosen = random.Random(5)
    for _ in range(300):
        data = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        data[chosen.randrange(len(data))] = chosen.randrange(256)
        answer = kinds_server.viewer.get(path, cursor=base64.urlsafe_b64encode(data).decode().rstrip("="))
        assert answer.status in {200, 400}, answer.body
        if answer.status == 200:
            assert all(row in whole for row in answer.json()["rows"])


def test_a_cursor_of_another_query_is_refused(kinds_server: Server) -> None:
    cursor = kinds_server.viewer.get(f"{KINDS}/texts/rows", limit=1).json()["cursor"]
    for store, query in (("texts", {"reverse": True}), ("texts", {"from": "a"}), ("numbers", {}), ("hops", {})):
        answer = kinds_server.viewer.get(f"{KINDS}/{store}/rows", cursor=cursor, **query)
        assert (answer.status, answer.message.partition(":")[0]) == (400, "the cursor belongs to another query")
    assert kinds_server.viewer.get(f"{KINDS}/texts/rows", cursor=cursor, limit=7).status == 200


def test_rows_that_stay_are_on_one_page_while_others_come_and_go(live_shop: LiveShop, serving: Serving) -> None:
    def number(n: int) -> bytes:
        return n.to_bytes(8)

    live_shop.produce("customers", *(shop.customer(n, "stays", "m") for n in range(0, 200, 2)))
    with serving(live_shop.data) as server:
        wait_until(lambda: len(pages(server.viewer, CUSTOMERS, limit=1000)[0]) == 100, "the rows of customers")
        chosen = random.Random(3)
        shown: list[int] = []
        cursor, positions = None, [0]
        while True:
            content = server.viewer.get(CUSTOMERS, limit=9, cursor=cursor).json()
            shown += [row["key"] for row in content["rows"]]
            positions.append(content["position"])
            cursor = content["cursor"]
            if cursor is None:
                break
            changed = [2 * chosen.randrange(100) + 1 for _ in range(20)]
            live_shop.produce(
                "customers",
                *(shop.customer(n, "comes", "m") for n in changed[:15]),
                *(ProducerRecord(number(n), None) for n in changed[15:]),
            )
            assert server.viewer.get(CUSTOMERS, at_least=content["position"] + 1, wait_ms=8000).status == 200
        assert [n for n in shown if n % 2 == 0] == list(range(0, 200, 2))
        assert len(shown) == len(set(shown))
        assert shown == sorted(shown)
        assert positions == sorted(positions)


def test_a_page_of_large_rows_ends_before_it_has_many_bytes(live_shop: LiveShop, serving: Serving) -> None:
    for n in range(8):
        live_shop.produce("customers", shop.customer(n, "x" * 900_000, "m"))
    with serving(live_shop.data) as server:

        def total() -> int:
            return sum(map(len, pages(server.viewer, CUSTOMERS, limit=1000)))

        wait_until(lambda: total() == 8, "eight large rows")
        shown = pages(server.viewer, CUSTOMERS, limit=1000)
        assert [len(page) for page in shown] == [5, 3]
        answer = server.viewer.post(CUSTOMERS, {"keys": list(range(8))})
        assert (answer.status, answer.message[:27]) == (400, "the keys have more than 100")
