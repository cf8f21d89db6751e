"""Reports of applications, and commands for them: what other processes leave does not disturb the application."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.processes import running
from tests.serve import shop
from tests.serve.conftest import LiveShop
from tests.serve.in_process import Senders, in_process
from tests.serve.servers import wait_until

from millstream import App
from millstream.log import ProducerRecord, open_log
from millstream.runtime.lifecycle import State

APPLICATIONS = "/api/v1/applications"


def report(data: Path) -> dict[str, Any]:
    file = data / "applications" / "shop" / "run" / "report.json"
    return json.loads(file.read_text()) if file.exists() else {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"7", b"\xff", b"[" * 100_000, b'{"command": ["stop"]}']
)
def test_a_file_that_is_no_command_is_removed_and_has_no_effect(live_shop: LiveShop, content: bytes) -> None:
    wait_until(lambda: report(live_shop.data), "the report")
    file = live_shop.data / "applications" / "shop" / "run" / "commands" / "1.json"
    file.write_bytes(content)
    wait_until(lambda: not file.exists(), "the removal")
    before = report(live_shop.data)["time"]
    wait_until(lambda: report(live_shop.data)["time"] > before, "the next report")
    assert live_shop.handle.state is State.RUNNING


def test_a_command_for_another_run_has_no_effect(live_shop: LiveShop) -> None:
    wait_until(lambda: report(live_shop.data), "the report")
    commands = live_shop.data / "applications" / "shop" / "run" / "commands"
    (commands / "1.json").write_text(json.dumps({"run": "of-yesterday", "command": "stop"}))
    wait_until(lambda: not [*commands.iterdir()], "the removal")
    assert live_shop.handle.state is State.RUNNING


def test_a_command_that_fails_is_reported_and_reports_go_on(
    live_shop: LiveShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise RuntimeError("it cannot be paused")

    monkeypatch.setitem(live_shop.handle._supervisor._reporter._commands, "pause", fails)
    with in_process(live_shop.data) as server:
        senders = Senders(server)
        wait_until(lambda: senders.get(f"{APPLICATIONS}/shop").get("state") == "RUNNING", "the report")
        assert senders.post(f"{APPLICATIONS}/shop/pause")[0] == 202

        def errors() -> list[str]:
            return [error["message"] for error in senders.get(f"{APPLICATIONS}/shop")["errors"]]

        wait_until(errors, "the error")
        assert "it cannot be paused" in errors()[0]
        before = report(live_shop.data)["time"]
        wait_until(lambda: report(live_shop.data)["time"] > before, "the next report")


@pytest.mark.slow
def test_an_application_that_was_killed_is_shown_as_killed(data: Path) -> None:
    shop.create_topics(data)
    program = """
import sys
import threading
from pathlib import Path
from tests.serve import shop
shop.build(Path(sys.argv[1]), report_interval_ms=50).run(mode="local")
"""
    with (
        subprocess.Popen([sys.executable, "-c", program, str(data)]) as process,
        in_process(data) as server,
    ):
        senders = Senders(server)

        def state() -> str:
            listed = senders.get(APPLICATIONS).get("applications", [])
            return str(listed[0]["state"]) if listed else ""

        try:
            wait_until(lambda: state() == "RUNNING", "the application")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert process.pid not in running()
        assert state() == "KILLED"
        assert senders.get(f"{APPLICATIONS}/shop")["live"] is False
        assert senders.post(f"{APPLICATIONS}/shop/pause")[0] == 409
        assert server.request("GET", "/readyz").status == 503


def test_an_application_without_reports_is_known_by_its_commits(data: Path) -> None:
    shop.create_topics(data)
    shop.write_input(data)
    shop.build(data, report_interval_ms=0).run(mode="local", until_caught_up=True)
    with in_process(data) as server:
        senders = Senders(server)
        (listed,) = senders.get(APPLICATIONS)["applications"]
        assert (listed["id"], listed["state"], listed["live"]) == ("shop", "UNKNOWN", False)
        assert senders.get(f"{APPLICATIONS}/shop")["metrics"] == {}
        assert senders.get(f"{APPLICATIONS}/shop/configuration") == {}
        assert "has not reported" in senders.get(f"{APPLICATIONS}/shop/topology")["error"]["message"]
        assert senders.get("/api/v1/groups/shop")["lag"] == 0


@pytest.mark.parametrize(
    ("bound", "status", "counts"),
    [("", 200, (1, 0, 0)), ("?max_lag=10", 200, (1, 0, 0)), ("?max_lag=9", 503, (1, 0, 1)), ("?max_lag=-1", 422, None)],
)
def test_readiness_has_a_bound_of_the_lag(
    live_shop: LiveShop, tmp_path: Path, bound: str, status: int, counts: tuple[int, int, int] | None
) -> None:
    wait_until(lambda: report(live_shop.data).get("state") == "RUNNING", "the report")
    content = report(live_shop.data)
    content["metrics"]["sources"] = {"orders": {"read": 5, "lag": 7}, "prices": {"read": 5, "lag": 3}}
    copy = tmp_path / "copy" / "applications" / "shop" / "run"
    copy.mkdir(parents=True)
    (copy / "report.json").write_text(json.dumps(content))
    with in_process(tmp_path / "copy") as server:
        answer = server.request("GET", f"/readyz{bound}")
        assert answer.status == status
        if counts is not None:
            assert tuple(answer.json()[name] for name in ("running", "not_running", "behind")) == counts


def test_the_bound_of_the_lag_is_an_option_of_the_server(data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("numbers")
        log.create_topic("out")
    may_go_on = threading.Event()

    def wait(number: int) -> int:
        may_go_on.wait(60)
        return number

    app = App("waiting", state_dir=str(data), status="none", commit_interval_ms=20, report_interval_ms=50)
    app.stream("numbers", key=str, value=int).map_values(wait, value=int).to("out", key=str)
    with in_process(data, ready_max_lag=5) as server, app.start(mode="local") as handle:

        def readiness(query: str = "") -> tuple[int, int, int]:
            answer = server.request("GET", f"/readyz{query}")
            return answer.status, answer.json()["running"], answer.json()["behind"]

        try:
            assert handle.wait_for({State.RUNNING}, 30)
            wait_until(lambda: readiness() == (200, 1, 0), "an application without a lag")
            with open_log(data) as log:
                log.produce("numbers", [ProducerRecord(b"a", n.to_bytes(8)) for n in range(20)])
            wait_until(lambda: readiness() == (503, 1, 1), "the report of the lag")
            assert readiness("?max_lag=20") == (200, 1, 0)
            assert readiness("?max_lag=19") == (503, 1, 1)
        finally:
            may_go_on.set()
        wait_until(lambda: readiness() == (200, 1, 0), "an application that has caught up")
        assert readiness("?max_lag=0") == (200, 1, 0)


def test_reports_are_private(live_shop: LiveShop) -> None:
    wait_until(lambda: report(live_shop.data), "the report")
    folder = live_shop.data / "applications" / "shop" / "run"
    for file in [folder, *folder.rglob("*")]:
        assert file.stat().st_mode & 0o077 == 0, file
