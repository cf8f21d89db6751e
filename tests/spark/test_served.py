"""An application on Spark, as a server beside it shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.serve.servers import start_server, wait_until

from millstream import App
from millstream.log import ProducerRecord, open_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

APPLICATION = "/api/v1/applications/served"
SECONDS = 120.0
"""Spark may have to start, on a busy machine."""


def test_a_server_shows_and_commands_an_application_on_spark(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = {"state.dir": str(data), "status": "none", "report.interval.ms": 100}
    app = App("served", config=config)
    words = app.stream("lines", key=str, value=str).flat_map_values(str.split, name="words")
    words.group_by(lambda word: word, key=str).count(store="counts").to_stream().to("counts")
    with open_log(data) as log, start_server(data) as server:
        log.create_topic("lines", 2)

        def report() -> dict[str, Any]:
            answer = server.viewer.get(APPLICATION)
            return dict(answer.json()) if answer.status == 200 else {"state": None, "metrics": {}}

        def counted(word: str) -> int | None:
            rows = server.viewer.get(f"{APPLICATION}/stores/counts/rows", key=word).json().get("rows")
            return rows[0]["value"] if rows else None

        with app.start():
            wait_until(lambda: report()["state"] == "RUNNING", "the start", SECONDS)
            log.produce("lines", [ProducerRecord(None, b"to be or not to be", None, (), n % 2) for n in range(100)])
            wait_until(lambda: counted("be") == 200, "the counts", SECONDS)
            wait_until(lambda: report()["metrics"]["sinks"].get("counts"), "the report of the batch", SECONDS)
            shown = report()
            assert (shown["mode"], shown["lag"]) == ("micro_batch", 0)
            metrics = shown["metrics"]
            assert metrics["sources"]["lines"] == {"read": 100, "lag": 0}
            assert metrics["phases"].keys() == {"spark", "read", "engine", "commit"}
            wait_until(lambda: len(report()["metrics"]["memory"]) > 1, "the memory of task hosts", SECONDS)
            exposed = server.viewer.get("/metrics").body.decode()
            for phase in ("spark", "read", "engine", "commit"):
                assert f'millstream_phase_duration_seconds_count{{application_id="served",phase="{phase}"}}' in exposed
            assert 'millstream_records_processed_total{application_id="served",topic="lines"} 100.0' in exposed
            assert exposed.count("millstream_process_memory_bytes{") > 1
            (first, second) = server.viewer.get(f"{APPLICATION}/topology").json()["sub_topologies"]
            assert "words" in [node["name"] for node in first["nodes"]]
            assert [store["name"] for store in second["stores"]] == ["counts"]

            assert server.operator.post(f"{APPLICATION}/pause").status == 202
            wait_until(lambda: report()["state"] == "PAUSED", "the pause", SECONDS)
            log.produce("lines", [ProducerRecord(None, b"paused")])
            wait_until(lambda: report()["lag"] == 1, "the lag of the application that is paused", SECONDS)
            assert counted("paused") is None
            assert server.operator.post(f"{APPLICATION}/resume").status == 202
            wait_until(lambda: counted("paused") == 1, "the record after the resumption", SECONDS)
        assert server.viewer.get(APPLICATION).json()["state"] == "NOT_RUNNING"
