"""Positions: each answer says which commit it shows, and a client can wait for one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.serve import shop
from tests.serve.client import Answer
from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server

from millstream.runtime.admin import reset

COUNTS = "/api/v1/applications/shop/stores/orders-of-shop/rows"


def count(server: Server, **query: Any) -> tuple[int | None, dict[str, Any]]:
    """The count of a shop, and the whole answer."""
    answer = server.viewer.get(COUNTS, key="north", **query)
    assert answer.status == 200, answer.body
    content = answer.json()
    return (content["rows"][0]["value"] if content["rows"] else None), content


def test_an_answer_says_which_commit_it_shows_and_how_old_it_is(shop_server: Server) -> None:
    _value, first = count(shop_server)
    _value, second = count(shop_server)
    assert first["position"] == second["position"] > 0
    assert first["committed"] == second["committed"] > 1_600_000_000_000
    assert second["age_ms"] >= first["age_ms"] >= 0
    minutes = shop_server.viewer.get("/api/v1/applications/shop/stores/minutes/rows").json()
    assert minutes["position"] == first["position"]


def test_the_position_grows_with_each_commit(live_shop: LiveShop, serving: Serving) -> None:
    with serving(live_shop.data) as server:
        value, before = count(server)
        assert value is None
        for expected in (1, 2, 3):
            live_shop.produce("orders", shop.order("north"))
            while value != expected:  # a commit may be one of another store
                value, after = count(server, at_least=before["position"] + 1, wait_ms=8000)
                assert after["position"] > before["position"]
                before = after


def test_a_position_that_is_not_reached_is_an_error_to_try_again(shop_server: Server) -> None:
    position = count(shop_server)[1]["position"]
    assert count(shop_server, at_least=position)[0] == 3
    for wait in (0, 100):
        answer = shop_server.viewer.get(COUNTS, key="north", at_least=position + 1, wait_ms=wait)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.headers["x-millstream-position"] == str(position)
        assert answer.message == f"application 'shop' is at position {position}, and not yet at {position + 1}"
    answer = shop_server.viewer.post(COUNTS, {"keys": ["north"], "at_least": position + 1, "wait_ms": 50})
    assert answer.status == 503


def test_waiting_requests_hold_up_no_other_one(shop_server: Server) -> None:
    position = count(shop_server)[1]["position"]
    answers: list[Answer] = []

    def wait() -> None:
        answers.append(shop_server.viewer.get(COUNTS, key="north", at_least=position + 1, wait_ms=3000))

    threads = [threading.Thread(target=wait) for _ in range(30)]
    for thread in threads:
        thread.start()
    answered = 0
    while len(answers) < 30:
        assert count(shop_server)[0] == 3
        answered += not answers
    for thread in threads:
        thread.join()
    assert answered > 0
    assert [answer.status for answer in answers] == [503] * 30


def test_an_application_that_was_reset_has_greater_positions(data: Path, serving: Serving) -> None:
    shop.run(data)
    with serving(data) as server:
        before = count(server)[1]["position"]
        reset("shop", state_dir=str(data))
        value, after = count(server)
        assert (value, after["position"] > before) == (None, True)
        shop.build(data).run(mode="local", until_caught_up=True)
        value, again = count(server)
        assert (value, again["position"] > after["position"]) == (3, True)
