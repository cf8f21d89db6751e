"""The way from the DSL into the runtime: starts, runs and queries an application.

`App` imports this module when it is used, and no other of the runtime.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from millstream.config import Config
from millstream.connect import Connector
from millstream.plan.contracts import check_keys
from millstream.runtime import queries
from millstream.runtime.connectors.execution import ConnectingExecution
from millstream.runtime.connectors.host import ConnectorHost
from millstream.runtime.connectors.task import Environment
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
from millstream.schemas.registries import registry_of
from millstream.stages import Topology

__all__ = ["Handle", "Listener", "State", "open_store", "repartitioned", "run", "start"]


def open_store(topology: Topology, config: Config, name: str, *, timestamped: bool) -> Any:
    """Opens a named store for reading: see `App.store`."""
    return queries.open_store(with_schemas_of(topology, config, name), config, name, timestamped=timestamped)


def start(
    topology: Topology,
    config: Config,
    *,
    until_caught_up: bool = False,
    on_state_change: Listener | None = None,
    connectors: Sequence[Connector] = (),
) -> Handle:
    """Starts an application in the background: see `App.start`."""
    return prepare(
        topology, config, until_caught_up=until_caught_up, on_state_change=on_state_change, connectors=connectors
    ).start()


def prepare(
    topology: Topology,
    config: Config,
    *,
    until_caught_up: bool = False,
    on_state_change: Listener | None = None,
    threads: Threads = OWN_THREADS,
    connectors: Sequence[Connector] = (),
) -> Handle:
    """Prepares an application, with its lock taken, and returns the handle that starts it.

    Args:
        topology: The topology.
        config: The configuration.
        until_caught_up: Stop once the input that exists now has been processed.
        on_state_change: Called at each change of the state.
        threads: The threads of local execution.
        connectors: The connectors that run beside the topology.
    """
    refuse_start_in_import()
    check_keys(topology.plan, config)
    life = Lifecycle()
    has_topology = bool(topology.plan.nodes)
    if config["execution.mode"] != "local" and has_topology:
        check_startable(config)
    if on_state_change is not None:
        life.listen(on_state_change)

    application: PreparedApplication
    if config["execution.mode"] == "micro_batch" and (has_topology or not connectors):
        application = PreparedApplication(topology, config, connectors=connectors)
    else:
        application = PreparedRealTime(topology, config, log=threads.log, connectors=connectors)

    hosts: list[ConnectorHost] = []

    def execute(_application: PreparedApplication, metrics: Metrics) -> Execution:
        if not connectors:
            return execute_topology(metrics)
        make = partial(execute_topology, metrics) if has_topology else None
        execution = ConnectingExecution(partial(_connector_host, application), make, until_caught_up=until_caught_up)
        hosts.append(execution.host)
        metrics.connectors = execution.host.read
        return execution

    def execute_topology(metrics: Metrics) -> Execution:
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
    for host in hosts:
        supervisor.commands["connector"] = host.command
    return Handle(supervisor, hosts[0] if hosts else None)


def _connector_host(application: PreparedApplication, tell: Callable[[str], None]) -> ConnectorHost:
    """The host of the connectors of an application, which shows messages with a function."""
    config = application.program.config
    environment = Environment(
        application.id,
        application.log,
        config,
        registry_of(application.id, config),
        lambda: application.epoch,
        tell,
    )
    return ConnectorHost(environment, application.connectors)


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
    connectors: Sequence[Connector] = (),
) -> None:
    """Runs an application until it ends or is interrupted: see `App.run`."""
    server = Server(topology.application_id, config, serve) if serve else contextlib.nullcontext()
    with interrupted_by_sigterm(), server:
        handle = start(
            topology, config, until_caught_up=until_caught_up, on_state_change=on_state_change, connectors=connectors
        )
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
