"""The way from the DSL into the runtime: starts, runs and queries an application.

`App` imports this module when it is used, and no other of the runtime.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from millstream.config import Config
from millstream.plan.contracts import check_keys
from millstream.runtime import queries
from millstream.runtime.execution import Execution
from millstream.runtime.handle import Handle
from millstream.runtime.lifecycle import Lifecycle, Listener, State
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.observe.server import Server
from millstream.runtime.program.modules import refuse_start_in_import
from millstream.runtime.real_time.execution import RealTimeExecution
from millstream.runtime.real_time.input_partitioning import with_repartitions
from millstream.runtime.real_time.link import Workers
from millstream.runtime.real_time.local_workers import LocalWorkers
from millstream.runtime.real_time.start import PreparedRealTime
from millstream.runtime.real_time.worker import run_worker
from millstream.runtime.spark.session import check_startable, import_pyspark
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.start.schemas import with_schemas_of
from millstream.runtime.supervisor import Supervisor
from millstream.runtime.threads.api import Threads
from millstream.runtime.threads.own import OWN_THREADS
from millstream.stages import Topology

__all__ = ["Handle", "Listener", "State", "open_store", "repartitioned", "run", "start"]


def open_store(topology: Topology, config: Config, name: str, *, timestamped: bool) -> Any:
    """Opens a named store for reading: see `App.store`."""
    return queries.open_store(with_schemas_of(topology, config, name), config, name, timestamped=timestamped)


def start(
    topology: Topology, config: Config, *, until_caught_up: bool = False, on_state_change: Listener | None = None
) -> Handle:
    """Starts an application in the background: see `App.start`."""
    return prepare(topology, config, until_caught_up=until_caught_up, on_state_change=on_state_change).start()


def prepare(
    topology: Topology,
    config: Config,
    *,
    until_caught_up: bool = False,
    on_state_change: Listener | None = None,
    threads: Threads = OWN_THREADS,
) -> Handle:
    """Prepares an application, with its lock taken, and returns the handle that starts it.

    Args:
        topology: The topology.
        config: The configuration.
        until_caught_up: Stop once the input that exists now has been processed.
        on_state_change: Called at each change of the state.
        threads: The threads of local execution.
    """
    refuse_start_in_import()
    check_keys(topology.plan, config)
    life = Lifecycle()
    if config["execution.mode"] != "local":
        check_startable(config)
    if on_state_change is not None:
        life.listen(on_state_change)

    application: PreparedApplication
    if config["execution.mode"] == "micro_batch":
        application = PreparedApplication(topology, config)
    else:
        application = PreparedRealTime(topology, config, log=threads.log)

    def execute(_application: PreparedApplication, metrics: Metrics) -> Execution:
        if isinstance(application, PreparedRealTime):
            make = partial(_workers, application, threads)
            return RealTimeExecution(application, make, until_caught_up=until_caught_up)
        from millstream.runtime.spark.micro_batch import MicroBatchExecution  # noqa: PLC0415  (on demand)

        return MicroBatchExecution(application, metrics, until_caught_up=until_caught_up)

    try:
        supervisor = application.retry_while_unavailable(
            lambda: Supervisor(application, execute, life, until_caught_up=until_caught_up, threads=threads)
        )
    except BaseException:
        application.close()
        raise
    return Handle(supervisor)


def _workers(application: PreparedRealTime, threads: Threads, retried: Callable[[str], None]) -> Workers:
    """The workers of an application, by its execution mode."""
    program, directory = application.program, application.directory
    if program.config["execution.mode"] == "local":
        return LocalWorkers(program, directory / "workers", threads=threads)
    import_pyspark()
    from millstream.runtime.spark.workers import SparkWorkers  # noqa: PLC0415  (it imports PySpark)

    return SparkWorkers(program, directory, retried, run_worker)


def repartitioned(topology: Topology, config: Config) -> Topology:
    """A topology for workers with the repartitions below sources that its configuration asks for."""
    if config["input.partitioning"] != "repartition":
        return topology
    return with_repartitions(topology, "repartition", {}, None).topology


def run(
    topology: Topology,
    config: Config,
    *,
    until_caught_up: bool = False,
    on_state_change: Listener | None = None,
    serve: str | bool | None = None,
) -> None:
    """Runs an application until it ends or is interrupted: see `App.run`."""
    server = Server(topology.application_id, config, serve) if serve else contextlib.nullcontext()
    with interrupted_by_sigterm(), server:
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
