"""Workers that start again in a process in which those before have not ended yet."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import numbers_of

from millstream import App
from millstream.errors import LogError
from millstream.log import ProducerRecord, open_log
from millstream.log.api import Fetched, Publication, Scope
from millstream.log.embedded.following import EmbeddedFollower
from millstream.log.embedded.parts import EmbeddedApplications

KEYS = [b"k%d" % number for number in range(10)]
EACH = 20
SLOW = "worker-1"
PATIENCE = 30.0


class SlowCommit:
    """Has the first publication of a worker committed just before the next instance of that worker fences it.

    Meanwhile, the reader of the other worker fails, so that all workers start again. The slow one could not report a
    failure: it waits for its publication first.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_held, self.may_commit, self.is_committed = threading.Event(), threading.Event(), threading.Event()
        self.has_failed = threading.Lock()
        publish, acquire, poll = EmbeddedApplications.publish, EmbeddedApplications.acquire, EmbeddedFollower.poll

        def publish_late(applications: EmbeddedApplications, publication: Publication) -> bool:
            if publication.scope.worker != SLOW or self.is_held.is_set():
                return publish(applications, publication)
            self.is_held.set()
            assert self.may_commit.wait(PATIENCE)
            try:
                return publish(applications, publication)
            finally:
                self.is_committed.set()

        def acquire_late(applications: EmbeddedApplications, scope: Scope, **options: Any) -> int:
            if scope.worker == SLOW and self.is_held.is_set():
                self.may_commit.set()
                assert self.is_committed.wait(PATIENCE)
            return acquire(applications, scope, **options)

        def poll_once(follower: EmbeddedFollower, *arguments: Any) -> list[Fetched]:
            is_other = SLOW not in threading.current_thread().name
            if is_other and self.is_held.is_set() and self.has_failed.acquire(blocking=False):
                raise LogError("the log does not answer")
            return poll(follower, *arguments)

        monkeypatch.setattr(EmbeddedApplications, "publish", publish_late)
        monkeypatch.setattr(EmbeddedApplications, "acquire", acquire_late)
        monkeypatch.setattr(EmbeddedFollower, "poll", poll_once)


def test_what_a_worker_commits_while_the_next_one_starts_is_not_processed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"execution.mode": "local", "num.workers": 2, "commit.interval.ms": 5, "restart.backoff.ms": 1}
    app = App("restarted", config={"state.dir": str(tmp_path), "status": "none", **config})
    app.stream("in", value=str).group_by_key().count(store="counts").to_stream().to("out", value=int)
    with open_log(tmp_path) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(key, b"v", time) for time in range(EACH) for key in KEYS])
        commit = SlowCommit(monkeypatch)
        handle = app.start(until_caught_up=True)
        handle.wait()
        assert commit.is_committed.is_set()
        assert handle.metrics()["restarts"] == 1
        assert numbers_of(log, "out") == {key: list(range(1, EACH + 1)) for key in KEYS}
