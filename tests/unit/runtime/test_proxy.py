"""A crash that the proxy cannot recover from reaches the commit as the error of a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from millstream import App
from millstream.errors import ProcessingError, QueryError, RunError
from millstream.log import Scope, open_log
from millstream.runtime.publish.committer import Committer
from millstream.runtime.read.reader import TASK_INPUT
from millstream.runtime.spark import proxy as module
from millstream.runtime.spark.proxy import TaskProxy
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.wire import PeerGone


class _NoState:
    """Spark's state of a task that has not run, which a failed batch must not change."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [None for _key in keys]

    def put_many(self, rows: list[tuple[bytes, bytes]]) -> None:
        assert not rows

    def delete_many(self, keys: list[bytes]) -> None:
        assert not keys


class _Program:
    """A program that no host asks for."""

    digest = b"program"


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskProxy:
    """A proxy whose host has ended."""

    def connect(_run: str, _executor: int, _host: int) -> Any:
        raise PeerGone

    monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(module, "executor", lambda: 1)
    monkeypatch.setattr(module, "is_stopped", lambda _run: False)
    program: Any = _Program()
    proxy = TaskProxy("run", program, 1, {0: 0}, tmp_path / "control")
    monkeypatch.setattr(proxy, "_state", _NoState(), raising=False)
    return proxy


@pytest.mark.parametrize(
    "error",
    [
        ProcessingError("task 0: its process ended (exit code 5), twice at this place", hint="check the serde"),
        QueryError("task 0: its process ended 4 times", hint="lower max.batch.bytes"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_commit_raises_the_error_of_an_unrecoverable_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: TaskProxy, error: RunError
) -> None:
    def run_traced(*_arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(module, "run_traced", run_traced)
    rows = [Row(kind=TASK_INPUT, payload=b"input")]
    payloads = [row.payload for row in proxy.handleInputRows((0,), iter(rows), None)]

    with open_log(tmp_path) as log:
        log.create_topic("in")
    app = App("crashing", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in").group_by_key().count(store="counts")
    application = PreparedApplication(app.topology(), app.config)
    try:
        committer = Committer(application.program, application.log, application.epoch)
        with pytest.raises(type(error)) as raised:
            committer.commit(0, payloads)
        assert (raised.value.message, raised.value.hint) == (error.message, error.hint)
        assert application.log.applications.published(Scope("crashing")) is None
    finally:
        application.close()
