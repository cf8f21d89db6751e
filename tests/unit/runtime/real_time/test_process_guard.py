from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
import time
from collections.abc import Callable

import pytest

from millstream.runtime.real_time.process_guard import ProcessGuard

processes = multiprocessing.get_context("forkserver")


def hold_the_interpreter_lock() -> None:
    ProcessGuard(threading.Event(), session_seconds=0.5)
    ctypes.PyDLL(None).sleep(1000)


def stay_after_the_driver_has_gone() -> None:
    gone = threading.Event()
    gone.set()
    ProcessGuard(gone, session_seconds=60, grace_seconds=0.5)
    time.sleep(1000)


def end_in_time() -> None:
    gone = threading.Event()
    gone.set()
    guard = ProcessGuard(gone, session_seconds=60, grace_seconds=60)
    guard.close()
    os._exit(0)


@pytest.mark.parametrize(
    ("behaviour", "code"), [(hold_the_interpreter_lock, 1), (stay_after_the_driver_has_gone, 1), (end_in_time, 0)]
)
def test_a_process_that_hangs_or_stays_alone_ends(behaviour: Callable[[], None], code: int) -> None:
    process = processes.Process(target=behaviour)
    process.start()
    process.join(60)
    assert process.exitcode == code
