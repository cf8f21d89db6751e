"""The execution mode of an application: as configured, or as `App.run` and `App.start` are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.errors import ConfigError, SetupError
from millstream.log import ProducerRecord, open_log
from millstream.runtime import facade

SCRIPT = """
import json, sys
from millstream import App

app = App("word-count", state_dir=sys.argv[1], status="none")
words = app.stream("lines", value=str).flat_map_values(str.split)
counts = words.group_by(lambda word: word).count(store="counts")
app.run(mode="local", until_caught_up=True)
print(json.dumps({"counts": dict(app.store("counts").all()), "modules": sorted(sys.modules)}))
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_log(tmp_path) as log:
        log.create_topic("lines", 2)
        log.produce("lines", [ProducerRecord(None, b"to be or not to be")])
    return tmp_path


def counting(data: Path, **options: Any) -> App:
    app = App("word-count", state_dir=data, status="none", **options)
    words = app.stream("lines", value=str).flat_map_values(str.split)
    words.group_by(lambda word: word).count(store="counts")
    return app


def test_local_mode_needs_neither_pyspark_nor_java(data: Path) -> None:
    bare = {"PATH": "/nowhere", **({"HOME": os.environ["HOME"]} if "HOME" in os.environ else {})}
    command = [sys.executable, "-c", SCRIPT, str(data)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=bare)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["counts"] == {"be": 2, "not": 1, "or": 1, "to": 2}
    assert {"pyspark", "py4j", "pandas"} & set(seen["modules"]) == set()


def test_the_mode_of_a_run_comes_before_the_configured_one(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[str] = []
    monkeypatch.setattr(facade, "start", lambda _topology, config, **_options: modes.append(config["execution.mode"]))
    app = counting(data, execution_mode="real_time", num_workers=3)
    app.start()
    app.start(mode="local")
    app.start(mode="micro_batch")
    assert modes == ["real_time", "local", "micro_batch"]
    assert app.config["execution.mode"] == "real_time"


def test_an_unknown_mode_is_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="'realtime' is not allowed"):
        counting(data).run(mode="realtime")  # type: ignore[arg-type]


def test_a_started_application_continues_in_local_mode(data: Path) -> None:
    with counting(data).start(mode="local", until_caught_up=True) as handle:
        handle.wait()
    with open_log(data) as log:
        log.produce("lines", [ProducerRecord(None, b"to be")])
    with counting(data).start(mode="local", until_caught_up=True) as handle:
        handle.wait()
        assert handle.store("counts").get("be") == 3


def test_another_form_of_state_is_refused_with_the_modes_that_have_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facade, "check_startable", lambda _config: None)  # it would need Java
    counting(data).run(mode="local", until_caught_up=True)
    with pytest.raises(SetupError, match=r"has run with execution\.mode=real_time") as refused:
        facade.prepare(counting(data).topology(), counting(data).config)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("start it with execution.mode=real_time or local; or ")


def test_metrics_of_workers_contain_stores_rates_and_lag(data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("names", 1)
        log.produce("names", [ProducerRecord(b"k%d" % n, b"name") for n in range(30)])
    app = App("names", state_dir=data, status="none")
    app.table("names", value=str, store="names")
    with app.start(mode="local", until_caught_up=True) as handle:
        handle.wait()
    metrics = handle.metrics()
    assert metrics["sources"]["names"] == {"read": 30, "lag": 0}
    assert metrics["operators"]["names-source"]["taken"] == 30
    assert metrics["stores"]["names"]["rows"] == 30
    assert metrics["state_size"]["rows"] == 30
    assert metrics["phases"].keys() == {"process", "commit"}
    with app.start(mode="local") as again:
        assert again.metrics()["sources"]["names"]["lag"] == 0
    assert (metrics["restarts"], metrics["restoring"], metrics["waiting"]) == (0, "", 0)
