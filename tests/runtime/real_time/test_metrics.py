"""The metrics of applications in workers, and global tables without tasks."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.test_metrics import COUNT, build

from millstream import App
from millstream.log import ProducerRecord, open_log


def test_changes_of_stores_with_a_view_are_counted(tmp_path: Path) -> None:
    handle = build(tmp_path).start(mode="local", until_caught_up=True)
    handle.wait()
    metrics = handle.metrics()
    changes = {name: figures["changes"] for name, figures in metrics["stores"].items() if "changes" in figures}
    assert changes.keys() == {"counts", "names", "total"}
    assert changes["names"] == 3
    assert 20 <= changes["counts"] <= COUNT
    assert metrics["sources"]["in"] == {"read": COUNT + 1, "lag": 0}


def test_an_application_of_global_tables_alone_has_caught_up_when_they_are_applied(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("names", 2)
        log.produce("names", [ProducerRecord(b"k%d" % n, b"v%d" % n, n) for n in range(COUNT)])
    app = App("tables", config={"state.dir": str(tmp_path), "execution.mode": "local", "status": "none"})
    app.global_table("names", key=str, value=str, store="names")
    app.run(until_caught_up=True)
    assert dict(app.store("names").all()) == {f"k{n}": f"v{n}" for n in range(COUNT)}
