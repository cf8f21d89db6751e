"""The supervisor of an application, with the execution that needs no Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from millstream import App
from millstream.errors import MillstreamError, QueryError, RunError
from millstream.log import Log, ProducerRecord, Scope, open_log
from millstream.runtime.execution import Execution, Observer, Progress
from millstream.runtime.handle import Handle
from millstream.runtime.in_process.execution import InProcessExecution
from millstream.runtime.lifecycle import Lifecycle, State
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.supervisor import ExecutionFactory, Supervisor

WAIT = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v")] * 25)
        yield log


@pytest.fixture
def app(tmp_path: Path, log: Log) -> App:
    config = {"state.dir": str(tmp_path), "status": "none", "restart.backoff.ms": 1, "restart.max.attempts": 2}
    app = App("supervised", config=config)
    app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    return app


def handle_of(app: App, execute: ExecutionFactory, *, until_caught_up: bool = False) -> Handle:
    application = PreparedApplication(app.topology(), app.config)
    return Handle(Supervisor(application, execute, Lifecycle(), until_caught_up=until_caught_up))


def in_process(*, until_caught_up: bool = False) -> ExecutionFactory:
    return lambda application, _metrics: InProcessExecution(application, until_caught_up=until_caught_up, records=10)


def test_an_application_runs_until_it_has_caught_up(app: App) -> None:
    states: list[State] = []
    handle = handle_of(app, in_process(until_caught_up=True), until_caught_up=True)
    handle.on_state_change(lambda state, _before: states.append(state))
    assert handle.start().wait(WAIT)
    assert states == [State.STARTING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    assert app.store("counts").get("k") == 25
    assert handle.metrics()["sources"] == {"in": {"read": 25, "lag": 0}}


def test_a_paused_application_publishes_nothing_until_it_is_resumed(app: App, log: Log) -> None:
    handle = handle_of(app, in_process())
    handle.pause()
    with handle.start():
        assert not handle.wait(0.3)
        assert log.applications.published(Scope("supervised")) is None
        handle.resume()
        while handle.metrics()["sources"]["in"]["lag"]:
            assert not handle.wait(0.01)
    assert handle.state is State.NOT_RUNNING
    assert app.store("counts").get("k") == 25


class Failing:
    """An execution whose starts fail, except those that publish first."""

    def __init__(self, error: Exception, published: int = 0) -> None:
        self.starts = 0
        self.closed = 0
        self._error = error
        self._published = published

    def start(self, observer: Observer, stopping: threading.Event) -> bool:
        self.starts += 1
        if self.starts <= self._published:
            observer.published(Progress(self.starts, [], 0.0, 0.0, 1))
        return True

    def poll(self) -> None:
        raise self._error

    def is_caught_up(self) -> bool:
        return False

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1

    def explain(self, error: Exception) -> MillstreamError | None:
        return RunError("explained") if isinstance(error, ConnectionError) else None


def failing(execution: Failing) -> ExecutionFactory:
    def execute(_application: PreparedApplication, _metrics: Metrics) -> Execution:
        return execution

    return execute


def fails(kind: type[MillstreamError], message: str) -> AbstractContextManager[object]:
    return pytest.raises(kind, match=message)


@pytest.mark.parametrize(("published", "starts"), [(0, 3), (4, 6)])
def test_a_failure_that_may_pass_is_followed_by_restarts(app: App, published: int, starts: int) -> None:
    """Failed attempts are counted from the last one that has published."""
    execution = Failing(QueryError("Spark stopped the query"), published)
    with fails(QueryError, "Spark stopped the query"):
        handle_of(app, failing(execution)).start().wait(WAIT)
    assert (execution.starts, execution.closed) == (starts, starts)


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (RunError("the function failed"), "the function failed"),
        (ConnectionResetError(), "explained"),
        (KeyError("x"), "the application stopped: KeyError: 'x'"),
    ],
)
def test_other_errors_end_the_application_at_once(app: App, raised: Exception, message: str) -> None:
    execution = Failing(raised)
    handle = handle_of(app, failing(execution))
    with fails(RunError, message):
        handle.start().wait(WAIT)
    assert (execution.starts, execution.closed) == (1, 1)
    assert handle.state is State.ERROR
    with contextlib.closing(PreparedApplication(app.topology(), app.config)):
        pass  # the lock was released
