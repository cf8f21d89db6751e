"""Routes of applications, topics and consumer groups."""

from __future__ import annotations

from tests.serve.conftest import LiveShop, Serving
from tests.serve.servers import Server, wait_until


def test_an_application_that_has_stopped_is_listed_with_its_state(shop_server: Server) -> None:
    (shop,) = shop_server.viewer.get("/api/v1/applications").json()["applications"]
    assert (shop["id"], shop["state"], shop["live"], shop["mode"]) == ("shop", "NOT_RUNNING", False, "local")


def test_a_running_application_is_paused_resumed_and_stopped(live_shop: LiveShop, serving: Serving) -> None:
    with serving(live_shop.data) as server:

        def state() -> str:
            return str(server.viewer.get("/api/v1/applications/shop").json()["state"])

        wait_until(lambda: state() == "RUNNING", "the report of a running application")
        assert server.operator.post("/api/v1/applications/shop/pause").status == 202
        wait_until(lambda: state() == "PAUSED", "the pause")
        assert server.operator.post("/api/v1/applications/shop/resume").status == 202
        wait_until(lambda: state() == "RUNNING", "the resumption")
        assert server.admin.post("/api/v1/applications/shop/stop").status == 202
        wait_until(lambda: state() == "NOT_RUNNING", "the stop")
