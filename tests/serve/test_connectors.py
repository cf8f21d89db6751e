"""Routes of connectors, with the paths of Kafka Connect."""

from __future__ import annotations

from pathlib import Path

from tests.connect.plugins import Lines
from tests.serve.conftest import Serving
from tests.serve.servers import wait_until

from millstream import App


def test_connectors_are_shown_and_commanded(tmp_path: Path, serving: Serving) -> None:
    for name in ("pipes", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("k:1\n")
    apps = []
    for name, connectors in (("pipes", ("files", "more")), ("others", ("files",))):
        app = App(name, config={"state.dir": str(tmp_path / "data"), "status": "none", "report.interval.ms": 50})
        for connector in connectors:
            app.connect(connector, Lines(tmp_path / name, f"{name}-{connector}"), key=str, value=str)
        apps.append(app)
    with apps[0].start(), apps[1].start(), serving(tmp_path / "data") as server:
        admin = server.admin

        def state(name: str) -> str:
            answer = admin.get(f"/connectors/{name}/status")
            return str(answer.json()["connector"]["state"]) if answer.status == 200 else ""

        wait_until(lambda: len(admin.get("/connectors").json()) == 3, "the reports")
        assert sorted(admin.get("/connectors").json()) == ["more", "others:files", "pipes:files"]
        wait_until(lambda: state("more") == "RUNNING", "the start")
        shown = admin.get("/connectors/more").json()
        assert (shown["type"], shown["promise"], shown["tasks"]) == (
            "source", "exactly once", [{"connector": "more", "task": 0}],
        )  # fmt: skip
        assert admin.get("/connectors/more/tasks").json()[0]["config"] == {"split": "a"}
        wait_until(lambda: b"millstream_connector_gauge" in admin.get("/metrics").body, "the metrics")
        exposed = admin.get("/metrics").body.decode()
        assert 'millstream_connector_state{application_id="pipes",connector="more",state="RUNNING"} 1.0' in exposed
        assert 'millstream_connector_records_total{application_id="pipes",connector="more"} 1.0' in exposed
        gauge = 'millstream_connector_gauge{application_id="pipes",connector="more",gauge="bytes",task="a"} 4.0'
        assert gauge in exposed
        assert admin.get("/connectors/more/topics").json() == {"more": {"topics": []}}
        assert {plugin["class"] for plugin in admin.get("/connector-plugins").json()} >= {"postgres-cdc"}
        assert admin.request("PUT", "/connectors/more/pause").status == 202
        wait_until(lambda: state("more") == "PAUSED", "the pause")
        assert state("pipes:files") == "RUNNING"
        assert admin.request("PUT", "/connectors/more/resume").status == 202
        wait_until(lambda: state("more") == "RUNNING", "the resume")
        assert admin.post("/connectors/more/restart").status == 202
        own = "/api/v1/applications/others/connectors/files"
        assert admin.post(f"{own}/pause").status == 202
        wait_until(lambda: state("others:files") == "PAUSED", "the pause of one of two")
        assert state("pipes:files") == "RUNNING"
        assert admin.post(f"{own}/resume").status == 202
        assert admin.post(f"{own}/stop").status == 422
        assert admin.get("/connectors/files/status").status == 409
        answer = admin.get("/connectors/mor/status")
        assert (answer.status, "did you mean 'more'" in answer.json()["error"]["message"]) == (404, True)
        assert server.operator.request("PUT", "/connectors/more/pause").status == 403
    with serving(tmp_path / "data") as server:
        assert server.admin.get("/connectors/more/status").json()["connector"]["state"] == "UNASSIGNED"
        assert server.admin.request("PUT", "/connectors/more/pause").status == 409


def test_a_snapshot_names_its_tables(serving: Serving, tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        bodies: list[object] = [{}, {"tables": []}, {"tables": "x"}, {"tables": ["a"], "more": 1}]
        for body in bodies:
            assert server.admin.post("/connectors/x/snapshot", body).status == 422
