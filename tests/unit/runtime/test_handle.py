"""The handle of an application, without Spark."""

from __future__ import annotations

import contextlib
import queue
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from millstream import App
from millstream.errors import RunError, SetupError
from millstream.log import open_log
from millstream.runtime import facade
from millstream.runtime.handle import Handle
from millstream.runtime.lifecycle import State
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.spark import micro_batch
from millstream.runtime.spark.micro_batch import MicroBatchExecution
from millstream.runtime.start.prepared_application import PreparedApplication


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setattr(facade, "check_startable", lambda _config: None)
    with open_log(tmp_path) as log:
        log.create_topic("in")
    app = App("handled", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", value=str).to("out")
    return app


def fail_with(error: Exception) -> Any:
    def fail(*_arguments: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("raised", "told", "message"),
    [
        (SetupError("there is no cluster"), SetupError, "there is no cluster"),
        (ConnectionRefusedError(), RunError, "the application stopped: Spark's Java process has ended"),
        (KeyError("x"), RunError, "the application stopped: KeyError: 'x'"),
    ],
)
def test_a_failed_start_ends_in_error_by_pending_error(
    app: App, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: type[Exception], message: str
) -> None:
    monkeypatch.setattr(micro_batch, "open_session", fail_with(raised))
    changes: list[tuple[State, State]] = []
    handle = app.start(on_state_change=lambda new, old: changes.append((new, old)))
    with pytest.raises(told, match=message):
        handle.wait(60)
    assert changes == [
        (State.STARTING, State.CREATED),
        (State.PENDING_ERROR, State.STARTING),
        (State.ERROR, State.PENDING_ERROR),
    ]
    assert handle.state is State.ERROR
    assert handle.stop(timeout=10)
    assert handle.state is State.ERROR


def test_run_takes_a_listener(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batch, "open_session", fail_with(SetupError("there is no cluster")))
    states: list[State] = []
    with pytest.raises(SetupError):
        app.run(on_state_change=lambda new, _old: states.append(new))
    assert states == [State.STARTING, State.PENDING_ERROR, State.ERROR]


def test_a_stop_does_not_wait_for_spark_to_start(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    monkeypatch.setattr(micro_batch, "open_session", lambda *_arguments: started.wait())
    states: list[State] = []
    handle = app.start(on_state_change=lambda new, _old: states.append(new))
    assert handle.stop(timeout=5)
    assert states == [State.STARTING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    started.set()
    handle.wait()


@pytest.mark.parametrize("end", [SystemExit(1), KeyboardInterrupt()])
def test_a_listener_cannot_keep_an_application_from_ending(
    app: App, monkeypatch: pytest.MonkeyPatch, end: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(micro_batch, "open_session", fail_with(SetupError("there is no cluster")))

    def listener(new: State, _old: State) -> None:
        if new is State.PENDING_ERROR:
            raise end

    handle = app.start(on_state_change=listener)
    assert handle.wait(60, check=False)
    assert handle.state is State.ERROR
    assert "a listener failed at the change to PENDING_ERROR" in capsys.readouterr().err


def test_a_listener_may_stop_the_application(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batch, "open_session", fail_with(SetupError("there is no cluster")))
    started, stopped = queue.SimpleQueue[Handle](), queue.SimpleQueue[bool]()

    def listener(new: State, _old: State) -> None:
        if new is State.ERROR:
            stopped.put(started.get().stop())

    started.put(app.start(on_state_change=listener))
    assert stopped.get(timeout=60)


def test_acknowledgements_of_an_earlier_planner_are_ignored(app: App) -> None:
    """Otherwise a running planner would seem to have paused, and its batch would be interrupted."""

    def acknowledged_too_early() -> bool:
        with contextlib.closing(PreparedApplication(app.topology(), app.config)) as application:
            execution = MicroBatchExecution(application, Metrics(application))
            execution.control.clear()
            execution.pause()
            early = execution.control.is_acknowledged(execution.settings)
            execution.control.acknowledge(execution.settings)
            return early

    assert [acknowledged_too_early() for _ in range(2)] == [False, False]
