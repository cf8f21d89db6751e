"""Delivery of alerts to a webhook and a topic, and the configuration of alerts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.serve.reported import START, Reported, original_report
from tests.serve.servers import wait_until

from millstream.errors import ConfigError
from millstream.log import open_log
from millstream.serve.data import ServedData
from millstream.serve.observe.alerts.configuration import Webhook, load_configuration
from millstream.serve.observe.alerts.delivery import Deliveries, WebhookTarget
from millstream.serve.observe.observer import Observer
from millstream.serve.options import ServeOptions

SECRET = "hunter2-token"


class Receiver:
    """A web server that takes alerts.

    Attributes:
        answers: The statuses of its next answers; then 200.
        taken: The headers and the content of each request.
    """

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.taken: list[tuple[dict[str, str], Any]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.taken.append((dict(self.headers), json.loads(body)))
                receiver.may_answer.wait(30)
                status = receiver.answers.pop(0) if receiver.answers else 200
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{SECRET}"

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def deliveries(receiver: Receiver) -> Iterator[Deliveries]:
    target = WebhookTarget(Webhook(receiver.url, {"Authorization": f"Bearer {SECRET}"}, 10.0))
    deliveries = Deliveries([target], prints=False, first_pause=0.01)
    yield deliveries
    deliveries.close()


def event(**changes: Any) -> dict[str, Any]:
    return {"status": "firing", "application": "shop", "rule": "lag", "message": "m", "time": 0, **changes}


def test_an_event_is_posted_as_json_with_the_configured_headers(receiver: Receiver, deliveries: Deliveries) -> None:
    done = threading.Event()
    deliveries.deliver(event(), done.set)
    assert done.wait(30)
    ((headers, content),) = receiver.taken
    assert content == event()
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert headers["Content-Type"] == "application/json"


def test_an_event_is_posted_again_until_it_is_taken(receiver: Receiver, deliveries: Deliveries) -> None:
    receiver.answers = [500, 503, 429]
    done = threading.Event()
    deliveries.deliver(event(), done.set)
    assert done.wait(30)
    assert len(receiver.taken) == 4


@pytest.mark.parametrize("status", [400, 404, 302])
def test_an_event_that_is_refused_is_given_up(
    receiver: Receiver, deliveries: Deliveries, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = [status]
    done = threading.Event()
    deliveries.deliver(event(), done.set)
    assert done.wait(30)
    assert len(receiver.taken) == 1
    printed = capfd.readouterr().err
    assert f"was not delivered to the webhook at 127.0.0.1: it answers {status}" in printed
    assert SECRET not in printed


def test_events_keep_their_order_and_a_slow_receiver_holds_up_nothing(
    receiver: Receiver, deliveries: Deliveries
) -> None:
    receiver.may_answer.clear()
    done = threading.Event()
    deliveries.deliver(event(status="firing"), lambda: None)
    deliveries.deliver(event(status="resolved"), done.set)
    assert not done.is_set()
    receiver.may_answer.set()
    assert done.wait(30)
    assert [content["status"] for _headers, content in receiver.taken] == ["firing", "resolved"]


def test_a_receiver_that_is_away_is_tried_again(capfd: pytest.CaptureFixture[str]) -> None:
    gone = Receiver()
    gone.close()
    deliveries = Deliveries([WebhookTarget(Webhook(gone.url, {}, 1.0))], prints=False, first_pause=0.0001)
    done = threading.Event()
    deliveries.deliver(event(), done.set)
    assert done.wait(30)
    printed = capfd.readouterr().err
    assert "Connection refused" in printed
    assert SECRET not in printed
    deliveries.close()


@pytest.fixture
def observed(data: Path, shop_data: Path) -> Iterator[Callable[[str], Observer]]:
    """Observes an application that has failed, with a configuration of alerts."""
    served = []

    def observe(configuration: str) -> Observer:
        Reported(data, original_report(shop_data)).write(0, state="ERROR")
        file = data.parent / "alerts.toml"
        file.write_text(configuration)
        served.append(ServedData(ServeOptions(data=str(data), alerts=file)))
        observer = Observer(served[-1])
        observer.observe(START)
        return observer

    yield observe
    for each in served:
        each.close()


def test_an_alert_is_written_to_a_topic(data: Path, observed: Callable[[str], Observer]) -> None:
    with open_log(data) as log:
        observer = observed('[alerts]\nlog = false\n[alerts.topic]\nname = "alarms"\n')
        wait_until(lambda: [topic for topic in log.topics() if topic.name == "alarms"], "the topic")
        wait_until(lambda: log.ends(["alarms"])["alarms"] == [1], "the record")
        (record,) = log.read("alarms", 0, 0, 1).to_pylist()
        observer.stop()
    assert record["key"] == b"shop"
    value = json.loads(record["value"])
    assert (value["rule"], value["status"], value["version"]) == ("failing", "firing", 1)
    assert record["timestamp"] == value["time"] == START


def test_an_alert_that_was_not_delivered_is_delivered_by_the_next_server(
    receiver: Receiver, observed: Callable[[str], Observer], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERT_URL", receiver.url)
    receiver.may_answer.clear()
    configuration = '[alerts.webhook]\nurl = "${env:ALERT_URL}"\nheaders = { Authorization = "${env:ALERT_URL}" }\n'
    first = observed(configuration)
    wait_until(lambda: receiver.taken, "the first attempt")
    first.stop()
    second = observed(configuration)
    receiver.may_answer.set()
    wait_until(lambda: len(receiver.taken) == 2, "the second attempt")
    wait_until(lambda: '"told":true' in (data / "alerts" / "shop.json").read_text(), "the note")
    second.stop()
    observed(configuration).stop()
    assert len(receiver.taken) == 2


def test_the_address_of_a_webhook_is_not_shown() -> None:
    webhook = Webhook(f"https://user:{SECRET}@example.com/{SECRET}", {"Authorization": SECRET}, 1.0)
    assert repr(webhook) == "Webhook(example.com)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "alerts is missing"),
        ("alerts = 1", "is not a table"),
        ("[alerts]\nlogs = true", "did you mean 'log'"),
        ("[alerts]\nlog = 1", "log is 1"),
        ('[alerts.webhook]\nurl = "file:///etc/passwd"', "not an address of http"),
        ("[alerts.webhook]\ntimeout = 5", "url is missing"),
        ('[alerts.webhook]\nurl = "https://x/"\ntimeout = "2h"', "the timeout is not between"),
        ('[alerts.webhook]\nurl = "https://x/"\nheaders = { "A B" = "x" }', "a header is not valid"),
        ('[alerts.webhook]\nurl = "https://x/"\nheaders = { A = "x\\r\\nB: y" }', "a header is not valid"),
        ('[alerts.webhook]\nurl = "${env:NO_SUCH_VARIABLE}"', "NO_SUCH_VARIABLE"),
        ('[alerts.topic]\nname = "a b"', "is not allowed"),
        ('[[alerts.rules]]\nmetric = "lag"', "has no name"),
        ('[[alerts.rules]]\nname = "mine"\nthreshold = 1', "has no metric"),
        ('[[alerts.rules]]\nname = "mine"\nmetric = "lag"', "has no threshold"),
        ('[[alerts.rules]]\nname = "mine"\nmetric = "lags"\nthreshold = 1', "did you mean 'lag'"),
        ('[[alerts.rules]]\nname = "failing"\ncomparison = "=>"', "there is no comparison '=>'"),
        ('[[alerts.rules]]\nname = "failing"\nthreshold = "much"', "is not a number"),
        ('[[alerts.rules]]\nname = "failing"\nfor = "soon"', "cannot read 'soon'"),
        ('[[alerts.rules]]\nname = "failing"\nfor = "-5m"', "is negative"),
        ('[[alerts.rules]]\nname = "failing"\nseverity = "bad"', "there is no severity 'bad'"),
        ('[[alerts.rules]]\nname = "failing"\nenabled = "yes"', "write true or false"),
        ('[[alerts.rules]]\nname = "failing"\nafter = "5m"', "an unknown key 'after'"),
        ("[alerts\n", "is not TOML"),
    ],
)
def test_a_configuration_that_is_not_valid_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_configuration(file)
    assert message in f"{refused.value.message} {refused.value.hint}"


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_configuration(tmp_path / "none.toml")


def test_the_file_of_profiles_has_alerts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_configuration(None).topic is None
    (tmp_path / "millstream.toml").write_text(
        '[alerts.topic]\nname = "all"\n[profiles.test]\n"bootstrap.servers" = "b:1"\n'
        '[profiles.test.alerts.topic]\nname = "own"\n[profiles.other]\n"bootstrap.servers" = "b:1"\n'
    )
    assert load_configuration(None).topic == "all"
    monkeypatch.setenv("MILLSTREAM_PROFILE", "test")
    assert load_configuration(None).topic == "own"
    monkeypatch.setenv("MILLSTREAM_PROFILE", "other")
    assert load_configuration(None).topic == "all"


def test_a_profile_may_have_alerts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from millstream.config.profiles import profile

    monkeypatch.chdir(tmp_path)
    (tmp_path / "millstream.toml").write_text(
        '[profiles.test]\n"bootstrap.servers" = "b:1"\n[profiles.test.alerts]\nlog = false\n'
    )
    assert profile("test") == {"bootstrap.servers": "b:1"}
