"""Many applications in the threads that they share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream import App, Handle
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.facade import State, prepare
from millstream.runtime.threads.shared import SharedThreads


class Shared:
    """A log, shared threads, and the applications on them."""

    def __init__(self, log: Log, directory: Path) -> None:
        self.log = log
        self.threads = SharedThreads(log)
        self._directory = directory
        self.handles: list[Handle] = []

    def start(self, app: App) -> Handle:
        handle = prepare(app.topology(), app.config, threads=self.threads).start()
        self.handles.append(handle)
        return handle

    def app(self, name: str, **config: Any) -> App:
        return App(
            name,
            config={"state.dir": str(self._directory), "execution.mode": "local", "status": "none", **config},
        )

    def values(self, topic: str, count: int) -> list[bytes | None]:
        """The values of a topic, once it has so many records."""
        deadline = time.monotonic() + 60
        while self.log.ends([topic])[topic][0] < count and time.monotonic() < deadline:
            time.sleep(0.01)
        values: list[bytes | None] = self.log.read(topic, 0, 0, self.log.ends([topic])[topic][0])["value"].to_pylist()
        return values


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with open_log(tmp_path) as log:
        log.create_topic("in")
        applications = Shared(log, tmp_path)
        try:
            yield applications
        finally:
            for handle in applications.handles:
                handle.stop(10)
            applications.threads.close()


def counting(shared: Shared, name: str) -> App:
    app = shared.app(name)
    app.stream("in", key=str, value=str).group_by_key().count().to_stream().to(f"{name}-out", key=str, value=int)
    shared.log.create_topic(f"{name}-out")
    return app


def test_another_application_adds_no_thread(shared: Shared) -> None:
    shared.start(counting(shared, "app-0"))
    threads = threading.active_count()
    for number in range(1, 8):
        shared.start(counting(shared, f"app-{number}"))
    shared.log.produce("in", [ProducerRecord(b"k", b"v")] * 5)
    for number in range(8):
        assert len(shared.values(f"app-{number}-out", 5)) == 5
    assert threading.active_count() <= threads


def test_an_application_that_fails_does_not_stop_the_others(shared: Shared) -> None:
    app = shared.app("failing")

    def fail(value: str) -> str:
        raise ValueError(f"no {value}")

    app.stream("in", key=str, value=str).map_values(fail).to("failing-out")
    shared.log.create_topic("failing-out")
    failing = shared.start(app)
    others = [shared.start(counting(shared, f"app-{number}")) for number in range(3)]
    shared.log.produce("in", [ProducerRecord(b"k", b"v")])
    with pytest.raises(Exception, match="no v"):
        failing.wait(60)
    for number in range(3):
        assert len(shared.values(f"app-{number}-out", 1)) == 1
    assert [handle.state for handle in others] == [State.RUNNING] * 3


def test_a_function_that_does_not_return_holds_up_no_other_application(shared: Shared) -> None:
    release = threading.Event()
    app = shared.app("stuck", **{"task.timeout.ms": 1000})

    def hang(value: str) -> str:
        release.wait(60)
        return value

    app.stream("in", key=str, value=str).map_values(hang).to("stuck-out")
    shared.log.create_topic("stuck-out")
    stuck = shared.start(app)
    for number in range(4):
        shared.start(counting(shared, f"app-{number}"))
    shared.log.produce("in", [ProducerRecord(b"k", b"v")])
    with pytest.raises(Exception, match="has not returned for"):
        stuck.wait(60)
    for number in range(4):
        assert len(shared.values(f"app-{number}-out", 1)) == 1
    release.set()


def test_a_paused_application_continues_where_it_was(shared: Shared) -> None:
    handle = shared.start(counting(shared, "app"))
    shared.log.produce("in", [ProducerRecord(b"k", b"v")])
    assert len(shared.values("app-out", 1)) == 1
    handle.pause()
    shared.log.produce("in", [ProducerRecord(b"k", b"v")] * 2)
    time.sleep(0.3)
    assert shared.log.ends(["app-out"])["app-out"] == [1]
    handle.resume()
    assert [int.from_bytes(value or b"", "big") for value in shared.values("app-out", 3)] == [1, 2, 3]


def test_an_application_starts_again_where_it_was_stopped(shared: Shared) -> None:
    shared.log.produce("in", [ProducerRecord(b"k", b"v")] * 2)
    first = shared.start(counting(shared, "app"))
    assert len(shared.values("app-out", 2)) == 2
    assert first.stop(10)
    shared.log.produce("in", [ProducerRecord(b"k", b"v")])
    app = shared.app("app")
    app.stream("in", key=str, value=str).group_by_key().count().to_stream().to("app-out", key=str, value=int)
    shared.start(app)
    assert [int.from_bytes(value or b"", "big") for value in shared.values("app-out", 3)] == [1, 2, 3]
