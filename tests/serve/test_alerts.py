"""Alerts: when they fire and end, that a server that starts again does not repeat them, and the API."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import LiveShop, Serving
from tests.serve.reported import START, Reported, observer_of, original_report
from tests.serve.servers import Server, wait_until

from millstream import App
from millstream.log import ProducerRecord, open_log
from millstream.serve.observe.observer import Observer

MINUTE = 60

RULE = """
[alerts]
log = true

[[alerts.rules]]
name = "much lag"
metric = "lag"
threshold = 100
for = "1m"
ends_after = "1m"
severity = "critical"
applications = "sh*"
"""


class Watched:
    """An application whose reports a test writes, and the observer of its data.

    Attributes:
        reported: The report.
        events: The changes of alerts: the rule and the status.
    """

    def __init__(self, data: Path, shop_data: Path) -> None:
        self._data = data
        self.reported = Reported(data, original_report(shop_data))
        self._file = data.parent / "alerts.toml"
        self._file.write_text(RULE)
        self.events: list[tuple[str, str]] = []
        self.observer = self._observer()

    def _observer(self) -> Observer:
        observer = observer_of(self._data, self._file)
        observer.alerts.listeners.append(lambda event: self.events.append((event["rule"], event["status"])))
        return observer

    def start_again(self, rules: str = RULE) -> None:
        """Ends the server and starts another one."""
        self.observer.stop()
        self._file.write_text(rules)
        self.observer = self._observer()

    def sees(self, second: int, lag: int = 0, **changes: Any) -> list[tuple[str, str]]:
        """Takes a sample, and returns the changes of alerts since the start of the test."""
        self.reported.metrics["sources"]["orders"]["lag"] = lag
        self.reported.write(second * 1000, **changes)
        self.observer.observe(START + second * 1000)
        return self.events

    def states(self) -> dict[str, str]:
        """The states of the alerts that the API shows, by rule."""
        return {alert["rule"]: alert["state"] for alert in reversed(self.observer.alerts.read()["alerts"])}


@pytest.fixture
def watched(data: Path, shop_data: Path) -> Iterator[Watched]:
    watched = Watched(data, shop_data)
    yield watched
    watched.observer.stop()


FIRING, RESOLVED = ("much lag", "firing"), ("much lag", "resolved")


def test_an_alert_fires_once_and_ends_once(watched: Watched) -> None:
    assert watched.sees(0, 1000) == []
    assert watched.states() == {"much lag": "pending"}
    assert watched.sees(59, 1000) == []
    assert watched.sees(60, 1000) == [FIRING]
    assert watched.sees(120, 2000) == [FIRING]
    assert watched.sees(130, 100) == [FIRING]
    assert watched.states() == {"much lag": "firing"}
    assert watched.sees(190, 0) == [FIRING, RESOLVED]
    assert watched.sees(300, 0) == [FIRING, RESOLVED]
    (alert,) = watched.observer.alerts.read()["alerts"]
    assert (alert["state"], alert["since"], alert["ended"]) == ("resolved", START, START + 190_000)
    assert (alert["application"], alert["message"]) == ("shop", "lag is 0")


def test_a_short_excess_does_not_fire(watched: Watched) -> None:
    watched.sees(0, 1000)
    watched.sees(30, 0)
    assert watched.states() == {}
    assert watched.sees(60, 1000) == []
    assert watched.sees(119, 1000) == []


def test_an_alert_that_flaps_stays_one_alert(watched: Watched) -> None:
    for second in range(0, 600, 30):
        watched.sees(second, 1000 if second < 90 or second % 60 else 0)
    assert watched.events == [FIRING]


def test_a_server_that_starts_again_does_not_repeat_an_alert(watched: Watched) -> None:
    watched.sees(0, 1000)
    watched.sees(60, 1000)
    watched.start_again()
    assert watched.sees(65, 1000) == [FIRING]
    assert watched.states() == {"much lag": "firing"}
    watched.sees(70, 0)
    assert watched.sees(130, 0) == [FIRING, RESOLVED]
    watched.start_again()
    watched.sees(140, 0)
    assert watched.states() == {}


def test_the_alert_of_a_rule_that_was_removed_ends(watched: Watched) -> None:
    watched.sees(0, 1000)
    watched.sees(60, 1000)
    watched.start_again("[alerts]\nlog = false\n")
    assert watched.sees(65, 1000) == [FIRING, RESOLVED]


def test_of_two_servers_one_delivers(watched: Watched, data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = observer_of(data, data.parent / "alerts.toml")
    for second in (0, 60):
        watched.sees(second, 1000)
        other.observe(START + second * 1000)
    assert capfd.readouterr().err.count("alert firing: shop: much lag: lag is 1,000 (> 100)") == 1
    assert other.alerts.read()["alerts"][0]["state"] == "firing"
    watched.observer.stop()  # the other one takes over, and does not repeat it
    other.observe(START + 65_000)
    assert "firing" not in capfd.readouterr().err
    watched.reported.metrics["sources"]["orders"]["lag"] = 0
    for second in (70, 130):
        watched.reported.write(second * 1000)
        other.observe(START + second * 1000)
    assert capfd.readouterr().err.count("alert resolved: shop: much lag") == 1
    other.stop()


def test_an_application_that_ends_ends_its_alerts(watched: Watched) -> None:
    watched.sees(0, 1000)
    watched.sees(60, 1000)
    watched.sees(65, 1000, state="NOT_RUNNING")
    assert watched.sees(125, state="NOT_RUNNING") == [FIRING, RESOLVED]


def test_the_alerts_of_an_application_whose_reports_were_removed_end(watched: Watched, data: Path) -> None:
    assert watched.sees(0, state="ERROR") == [("failing", "firing")]
    shutil.rmtree(data / "applications")
    watched.observer.observe(START + 5000)
    assert watched.events == [("failing", "firing"), ("failing", "resolved")]
    assert list((data / "alerts").glob("*.json")) == []


def test_a_failed_application_is_an_alert_by_default(watched: Watched) -> None:
    assert watched.sees(0, state="ERROR") == [("failing", "firing")]
    watched.sees(5, state="STARTING")
    assert watched.sees(65, state="RUNNING")[1:] == [("failing", "resolved")]


def test_a_killed_application_is_an_alert_by_default(watched: Watched) -> None:
    assert watched.sees(0, pid=2**22 + 1) == [("failing", "firing")]


def test_an_application_that_exists_and_does_not_report_is_an_alert_by_default(watched: Watched) -> None:
    watched.sees(0, interval_ms=1000)
    watched.observer.observe(START + 29_000)
    assert watched.events == []
    watched.observer.observe(START + 30_000)
    assert watched.events == [("not reporting", "firing")]
    watched.sees(35, interval_ms=10**15)
    assert watched.sees(95) == [("not reporting", "firing"), ("not reporting", "resolved")]


def test_lag_that_grows_for_ten_minutes_is_an_alert_by_default(watched: Watched) -> None:
    watched.start_again("[alerts]\n")
    for second in range(0, 20 * MINUTE, 30):
        watched.sees(second, second * 10)
    assert watched.events == [("lag grows", "firing")]


def test_lag_that_goes_up_and_down_is_none(watched: Watched) -> None:
    watched.start_again("[alerts]\n")
    for second in range(0, 40 * MINUTE, 30):
        watched.sees(second, 10_000 * (second // 30 % 8))
    assert watched.events == []


def test_late_records_are_an_alert_by_their_share(watched: Watched) -> None:
    for second in range(0, 10 * MINUTE, 30):
        watched.reported.metrics["records"]["in"] += 1000
        watched.reported.drop("late", second)
        watched.sees(second)
    assert watched.events == [("late records", "firing")]


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("dropped by contract orders: an amount: violated", "contract violations"),
        ("processing error", "failed records"),
    ],
)
def test_records_that_are_refused_are_an_alert_by_default(watched: Watched, reason: str, rule: str) -> None:
    watched.sees(0)
    watched.reported.drop(reason, 100)
    assert watched.sees(5) == [(rule, "firing")]
    watched.sees(10)
    assert watched.sees(310) == [(rule, "firing"), (rule, "resolved")]


def test_many_restarts_are_an_alert_by_default(watched: Watched) -> None:
    for second, restarts in ((0, 1), (60, 3), (120, 4), (180, 5)):
        watched.reported.metrics["restarts"] = restarts
        watched.sees(second)
    assert watched.events == [("restarts", "firing")]


def test_a_rule_that_is_off_by_default_is_turned_on_by_its_name(watched: Watched) -> None:
    watched.start_again('[alerts]\n[[alerts.rules]]\nname = "no input"\nenabled = true\nthreshold = 60\n')
    watched.sees(0)
    assert watched.sees(61) == [("no input", "firing")]


def test_a_rule_is_turned_off_by_its_name(watched: Watched) -> None:
    watched.start_again('[alerts]\n[[alerts.rules]]\nname = "failing"\nenabled = false\n')
    assert watched.sees(0, state="ERROR") == []


def test_a_rule_applies_to_applications_of_its_pattern(watched: Watched) -> None:
    watched.start_again(RULE.replace("sh*", "other"))
    watched.sees(0, 1000)
    assert watched.sees(60, 1000) == []


def failing_application(data: Path) -> App:
    """An application that fails with its first record."""
    with open_log(data) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v", 0)])
    app = App("broken", state_dir=str(data), status="none")
    app.stream("in", key=str, value=str).map_values(lambda _value: 1 // 0).to("out")
    return app


def test_a_server_shows_the_alert_of_an_application_that_has_failed(data: Path, serving: Serving) -> None:
    assert failing_application(data).start(mode="local").wait(30, check=False)
    with serving(data) as server:
        (alert,) = wait_until(lambda: server.viewer.get("/api/v1/alerts").json()["alerts"], "the alert")
        assert (alert["rule"], alert["application"], alert["state"]) == ("failing", "broken", "firing")
        assert 'millstream_alerts_firing{application_id="broken",rule="failing",severity="critical"} 1.0' in (
            server.viewer.get("/metrics").body.decode()
        )
        wait_until(lambda: "alert firing: broken: failing" in server.text(), "the line in the log")
    with serving(data) as server:
        wait_until(lambda: server.viewer.get("/api/v1/alerts").json()["alerts"], "the alert of the second server")
        assert "firing" not in server.text()


def test_the_rules_are_shown(shop_server: Server) -> None:
    rules = {rule["name"]: rule for rule in shop_server.viewer.get("/api/v1/alerts").json()["rules"]}
    assert {"failing", "lag grows", "late records", "contract violations"} <= rules.keys()
    assert "no input" not in rules
    assert rules["lag grows"]["for_ms"] == 600_000
    assert shop_server.anonymous().get("/api/v1/alerts").status == 401


def test_a_paused_application_is_no_failure(live_shop: LiveShop, serving: Serving) -> None:
    live_shop.handle.pause()
    with serving(live_shop.data) as server:
        wait_until(lambda: server.viewer.get("/api/v1/applications/shop/history").json()["times"], "the first sample")
        assert server.viewer.get("/api/v1/alerts").json()["alerts"] == []
