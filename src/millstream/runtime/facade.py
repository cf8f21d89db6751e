"""The way from the DSL into the runtime: starts, runs and queries an application.

`App` imports this module when it is used, and no other of the runtime.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from millstream.config import Config
from millstream.runtime.execution import Execution
from millstream.runtime.handle import Handle
from millstream.runtime.lifecycle import Lifecycle, Listener, State
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.program.modules import refuse_start_in_import
from millstream.runtime.queries import open_store
from millstream.runtime.spark.micro_batch import MicroBatchExecution
from millstream.runtime.spark.session import check_startable
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.supervisor import Supervisor
from millstream.stages import Topology

__all__ = ["Handle", "Listener", "State", "open_store", "run", "start"]


def start(
    topology: Topology, config: Config, *, until_caught_up: bool = False, on_state_change: Listener | None = None
) -> Handle:
    """Starts an application in the background: see `App.start`."""
    return prepare(topology, config, until_caught_up=until_caught_up, on_state_change=on_state_change).start()


def prepare(
    topology: Topology, config: Config, *, until_caught_up: bool = False, on_state_change: Listener | None = None
) -> Handle:
    """Prepares an application, with its lock taken, and returns the handle that starts it."""
    refuse_start_in_import()
    life = Lifecycle()
    check_startable(config)
    if on_state_change is not None:
        life.listen(on_state_change)

    def execute(application: PreparedApplication, metrics: Metrics) -> Execution:
        return MicroBatchExecution(application, metrics, until_caught_up=until_caught_up)

    application = PreparedApplication(topology, config)
    try:
        supervisor = application.retry_while_unavailable(
            lambda: Supervisor(application, execute, life, until_caught_up=until_caught_up)
        )
    except BaseException:
        application.close()
        raise
    return Handle(supervisor)


def run(
    topology: Topology, config: Config, *, until_caught_up: bool = False, on_state_change: Listener | None = None
) -> None:
    """Runs an application until it ends or is interrupted: see `App.run`."""
    with interrupted_by_sigterm():
        handle = start(topology, config, until_caught_up=until_caught_up, on_state_change=on_state_change)
        try:
            handle.wait()
        except KeyboardInterrupt:
            handle.stop()
            handle.wait()


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Handles SIGTERM like Ctrl-C, unless the program has its own handler."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
