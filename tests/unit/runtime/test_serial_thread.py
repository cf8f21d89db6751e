"""The thread that runs the steps of a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from millstream.runtime.threads.serial_thread import SerialThread


@pytest.fixture
def make() -> Iterator[Callable[..., SerialThread]]:
    threads: list[SerialThread] = []

    def start(waiting: int = 0) -> SerialThread:
        threads.append(SerialThread("steps", waiting))
        return threads[-1]

    yield start
    for thread in threads:
        thread.close()


def test_steps_run_in_their_order_and_some_may_wait(make: Callable[..., SerialThread]) -> None:
    thread, done, gate = make(waiting=2), list[int](), threading.Event()
    thread.submit(lambda: done.append(int(gate.wait(30))))
    for number in (2, 3):
        thread.submit(partial(done.append, number))  # the first step is in progress, so both wait
    assert (thread.is_busy, done) == (True, [])
    fourth = threading.Thread(target=thread.submit, args=(partial(done.append, 4),))
    fourth.start()
    fourth.join(0.05)
    assert fourth.is_alive(), "it has to wait until fewer steps wait"
    gate.set()
    fourth.join()
    thread.wait()
    assert (thread.is_busy, done) == (False, [1, 2, 3, 4])


def test_no_step_runs_after_one_that_fails(make: Callable[..., SerialThread]) -> None:
    thread, done, gate = make(waiting=2), list[int](), threading.Event()

    def fail() -> None:
        gate.wait(30)
        raise ValueError("refused")

    thread.submit(fail)
    thread.submit(partial(done.append, 1))
    gate.set()
    for call in (thread.wait, thread.check, partial(thread.submit, partial(done.append, 2))):
        with pytest.raises(ValueError, match="refused"):
            call()
    assert done == []
