"""The handle of an application, as far as it needs no Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from millstream import App
from millstream.errors import RunError, SetupError
from millstream.log import open_log
from millstream.runtime import handle as handles
from millstream.runtime.lifecycle import State


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setattr(handles, "check_startable", lambda: None)
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
def test_an_application_that_cannot_start_goes_by_pending_error_to_error(
    app: App, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: type[Exception], message: str
) -> None:
    monkeypatch.setattr(handles, "open_session", fail_with(raised))
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


def test_a_listener_may_be_given_to_run(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "open_session", fail_with(SetupError("there is no cluster")))
    states: list[State] = []
    with pytest.raises(SetupError):
        app.run(on_state_change=lambda new, _old: states.append(new))
    assert states == [State.STARTING, State.PENDING_ERROR, State.ERROR]


def test_a_stop_does_not_wait_for_spark_to_start(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    monkeypatch.setattr(handles, "open_session", lambda *_arguments: started.wait())
    states: list[State] = []
    handle = app.start(on_state_change=lambda new, _old: states.append(new))
    assert handle.stop(timeout=5)
    assert states == [State.STARTING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    started.set()
    handle.wait()
