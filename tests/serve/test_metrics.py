"""The metrics of the server in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from tests.serve import shop
from tests.serve.conftest import Serving
from tests.serve.servers import Server, start_server, wait_until

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role
from millstream.serve.observe.families import EVERY, FIRING

SENTINEL = "sentinel-f3a9"


def families(server: Server) -> dict[str, Metric]:
    """The metrics of Millstream that a server exposes, by the name of the family."""
    answer = server.viewer.get("/metrics")
    assert answer.status == 200
    found = {family.name: family for family in parse(answer.body.decode())}
    return {name: family for name, family in found.items() if name.startswith("millstream_")}


def value(metrics: dict[str, Metric], sample: str, **labels: str) -> float | None:
    """The value of a sample; None if there is none."""
    for family in metrics.values():
        for each in family.samples:
            if each.name == sample and each.labels == {"application_id": "shop", **labels}:
                return each.value
    return None


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a running application that has processed an order, and one that violates the contract."""
    data = tmp_path_factory.mktemp("metrics") / "data"
    shop.create_topics(data)
    produce(data, shop.order(SENTINEL, 5), shop.order("south", 0))
    with shop.build(data, report_interval_ms=50).start(mode="local"), start_server(data) as server:
        wait_until(lambda: value(families(server), "millstream_records_written_total", topic="counts"), "output")
        yield server


def produce(data: Path, *orders: ProducerRecord) -> None:
    """Writes orders."""
    with open_log(data) as log:
        log.produce("orders", list(orders))


def test_a_running_application_has_every_metric(busy: Server) -> None:
    wait_until(lambda: value(families(busy), "millstream_state_store_rows", store="minutes"), "the sizes of stores")
    metrics = families(busy)
    always = [family.name for family in EVERY if family is not FIRING and not family.name.startswith("connector_")]
    assert metrics.keys() == {f"millstream_{name}" for name in always} | (metrics.keys() & {"millstream_alerts_firing"})
    for family in EVERY:
        for sample in metrics[f"millstream_{family.name}"].samples if f"millstream_{family.name}" in metrics else ():
            assert sample.labels.keys() - {"le"} == {"application_id", *family.labels}, sample


def test_the_values_are_those_of_the_application(busy: Server) -> None:
    metrics = families(busy)
    assert value(metrics, "millstream_app_state", state="RUNNING") == 1
    assert value(metrics, "millstream_app_state", state="PAUSED") == 0
    assert value(metrics, "millstream_records_processed_total", topic="orders") == 2
    assert value(metrics, "millstream_node_received_records_total", node="counts-sink") == 1
    violation = {"node": "orders-source", "reason": "contract violation"}
    assert value(metrics, "millstream_dropped_records_total", **violation) == 1
    assert value(metrics, "millstream_dead_letter_records_total", **violation) == 1
    broken = {"contract": "orders", "rule": "an amount", "reason": "violated"}
    assert value(metrics, "millstream_contract_violations_total", **broken) == 1
    assert value(metrics, "millstream_event_latency_seconds_count") == 1
    produce(busy.data, shop.order("south", 7))
    wait_until(lambda: value(families(busy), "millstream_event_latency_seconds_count") == 2, "the next output")


def test_no_key_and_no_value_is_exposed(busy: Server) -> None:
    assert SENTINEL not in busy.viewer.get("/metrics").body.decode()


def test_the_format_is_chosen_by_the_header_accept(busy: Server) -> None:
    plain = busy.viewer.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    opened = busy.viewer.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in parse_openmetrics(opened.body.decode())}  # type: ignore[no-untyped-call]
    assert "millstream_records_processed" in names
    assert opened.body.endswith(b"# EOF\n")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")
def test_promtool_has_no_objection(busy: Server) -> None:
    text = busy.viewer.get("/metrics").body
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_an_application_that_has_ended_has_its_state_only(shop_server: Server) -> None:
    metrics = families(shop_server)
    assert metrics.keys() == {
        "millstream_app_state",
        "millstream_app_start_time_seconds",
        "millstream_app_report_time_seconds",
    }
    assert value(metrics, "millstream_app_state", state="NOT_RUNNING") == 1


def test_a_scrape_needs_a_token_of_any_role(shop_server: Server) -> None:
    assert shop_server.anonymous().get("/metrics").status == 401
    assert {shop_server.client(role).get("/metrics").status for role in Role} == {200}


def test_a_directory_without_applications_has_the_metrics_of_the_server(data: Path, serving: Serving) -> None:
    with serving(data) as server:
        text = server.viewer.get("/metrics").body.decode()
        assert "process_resident_memory_bytes" in text
        assert "millstream_" not in text
