"""Children of a server process that has only imported modules.

A fork of the test process would inherit the locks of threads that earlier tests have started, such as those of Arrow
and of Kafka's client. A child that starts threads itself would crash on them now and then.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.fault.real_time", "millstream.runtime.facade"])


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Runs a function of a module in a child, with the environment of this process."""
    child = _CONTEXT.Process(target=_run, args=(dict(os.environ), target, arguments))
    child.start()
    return child


def _run(environment: dict[str, str], target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Runs a function. The server has the environment of the test that started it."""
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments)


def status_of(child: BaseProcess) -> int:
    """Waits for the end of a child; returns its exit status, or the negative number of the signal that ended it."""
    child.join()
    assert child.exitcode is not None
    return child.exitcode
