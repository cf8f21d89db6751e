"""The dashboard and the alert rules in `deploy` use metrics and labels that a running application exposes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connect.plugins import Lines
from tests.serve import shop
from tests.serve.servers import start_server, wait_until

from millstream import App
from millstream.connect import SourceRecord
from millstream.serve.observe.families import EVERY

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "millstream.json"
RULES = DEPLOY / "prometheus" / "millstream.rules.yml"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")

_SAMPLE = re.compile(r"(millstream_\w+)(?:\{(.*)\})? \S+")
_METRIC = re.compile(r"(millstream_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)(?:=~?|!~|!=)"')
_GROUPED = re.compile(r"(?:by|on) \(([^)]*)\)")
_SHOWN = re.compile(r"\{\{ ?(?:\$labels\.)?(\w+)")


def fails(record: SourceRecord) -> SourceRecord:
    if record.value == "2":
        raise ValueError("two")
    return record


@pytest.fixture(scope="session")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each sample that a running application exposes, by name."""
    data = tmp_path_factory.mktemp("deploy") / "data"
    shop.create_topics(data)
    shop.write_input(data)
    (data / "in").mkdir()
    (data / "in" / "a.txt").write_text("k:1\nk:2\n")
    pipes = App("pipes", config={"state.dir": str(data), "status": "none", "report.interval.ms": 50})
    pipes.connect("files", Lines(data / "in", "lines"), key=str, value=str, transforms=[fails], on_error="continue")
    application = shop.build(data, report_interval_ms=50)
    with application.start(mode="local"), pipes.start(), start_server(data) as server:

        def text() -> str:
            return server.viewer.get("/metrics").body.decode()

        for name in ("millstream_state_store_rows", "contract_violations", "millstream_connector_gauge"):
            wait_until(lambda: name in text(), name)  # noqa: B023  (called at once)
        samples = [match for line in text().splitlines() if (match := _SAMPLE.fullmatch(line))]
    return {match[1]: set(_LABEL.findall(match[2] or "")) for match in samples} | {
        family.full_name: {"application_id", *family.labels} for family in EVERY if family.name == "alerts_firing"
    }


def panels() -> Iterator[tuple[str, str, str]]:
    """The title, the query and the legend of each target of the dashboard."""
    for panel in json.loads(DASHBOARD.read_bytes())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def rules() -> Iterator[tuple[str, str]]:
    """The name and the text of each alert rule."""
    for text in RULES.read_text(encoding="utf-8").split("      - alert: ")[1:]:
        name, _, body = text.partition("\n")
        yield name, body


def unknown(text: str, shown: str, exposed: dict[str, set[str]]) -> list[str]:
    """The metrics and labels of queries that are not exposed.

    Args:
        text: Queries.
        shown: A text that refers to labels.
        exposed: The labels of each sample.
    """
    problems, labels = [], set()
    for name, selector in _METRIC.findall(text):
        if name not in exposed:
            problems.append(name)
            continue
        labels |= exposed[name]
        problems += [f"{name}: {label}" for label in _LABEL.findall(selector) if label not in exposed[name]]
    grouped = {label.strip() for group in _GROUPED.findall(text) for label in group.split(",")}
    problems += sorted(grouped - labels)
    named = {label for label in _SHOWN.findall(shown) if label != "value"}
    problems += sorted(named - (grouped or labels | {"instance"}))
    return problems


def test_the_dashboard_uses_what_is_exposed(exposed: dict[str, set[str]]) -> None:
    assert {title: found for title, query, legend in panels() if (found := unknown(query, legend, exposed))} == {}


def test_the_alert_rules_use_what_is_exposed(exposed: dict[str, set[str]]) -> None:
    assert {name: found for name, text in rules() if (found := unknown(text, text, exposed))} == {}


def test_the_comparison_notices_other_names() -> None:
    known = {"millstream_x_total": {"application_id", "topic"}}
    assert unknown("sum by (topic) (millstream_x_total)", "{{topic}}", known) == []
    assert unknown("millstream_y_total", "", known) == ["millstream_y_total"]
    assert unknown('millstream_x_total{node="a"}', "", known) == ["millstream_x_total: node"]
    assert unknown("sum by (node) (millstream_x_total)", "", known) == ["node"]
    assert unknown("sum by (topic) (millstream_x_total)", "{{node}}", known) == ["node"]


def test_the_dashboard_shows_every_metric() -> None:
    text = DASHBOARD.read_text(encoding="utf-8")
    hidden = {"app_start_time_seconds", "app_report_time_seconds", "stream_time_seconds"}
    assert [family.name for family in EVERY if f"millstream_{family.name}" not in text] == [
        family.name for family in EVERY if family.name in hidden
    ]


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in json.loads(DASHBOARD.read_bytes())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]


@needs_promtool
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "millstream.rules.yml"),
        ("test", "rules", "millstream.rules.test.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_files(command: tuple[str, ...]) -> None:
    checked = subprocess.run(["promtool", *command], cwd=RULES.parent, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_promtool
def test_prometheus_can_parse_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    queries = [query.replace("$__rate_interval", "5m").replace("$application", ".*") for _, query, _ in panels()]
    rules = [{"record": f"millstream:query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout
